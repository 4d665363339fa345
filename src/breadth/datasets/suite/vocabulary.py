"""Words that fill the templates. Every pool is dealt out to train and test, which share none of its fillings."""

from __future__ import annotations

from typing import NamedTuple

from breadth.datasets.suite.draw import Draw, Pool, pool, words

WOMEN = words(
    "Alice, Amelia, Anna, Beatrice, Bella, Camilla, Carla, Celia, Clara, Daphne, Diana, Edith, Eleanor, Elena, Emma,"
    "Esther, Fiona, Flora, Grace, Greta, Hannah, Helen, Irene, Isabel, Julia, Laura, Leila, Lucy, Maria, Martha,"
    "Matilda, Miriam, Nadia, Nina, Olivia, Paula, Phoebe, Rachel, Rosa, Ruth, Sarah, Sofia, Stella, Susan, Teresa,"
    "Vera, Wendy, Yvonne"
)
MEN = words(
    "Adam, Albert, Alfred, Andrew, Arthur, Ben, Brian, Bruno, Carlos, Daniel, David, Edgar, Edward, Eric, Felix,"
    "Frank, Fred, George, Gordon, Harold, Henry, Hugo, Ivan, Jack, Jacob, John, Karl, Kevin, Leo, Louis, Luke,"
    "Marcus, Martin, Max, Michael, Nathan, Neil, Oliver, Oscar, Patrick, Paul, Peter, Ralph, Robert, Simon,"
    "Stephen, Thomas, Victor"
)
PEOPLE = Pool(WOMEN.train + MEN.train, WOMEN.test + MEN.test)

SURNAMES = words(
    "Abbott, Barlow, Carver, Dawson, Ellery, Fletcher, Garner, Holloway, Irwin, Jarvis, Kendall, Lambert, Mercer,"
    "Norwood, Osborn, Prescott, Quigley, Redmond, Sawyer, Thornton, Underhill, Vickers, Whitlock, Yardley"
)
TOWNS = words(
    "Ashcombe, Barrowdale, Brindley, Calderwick, Cranmoor, Dunfold, Easterby, Fallowmere, Glenholt, Hartsea,"
    "Inverlea, Kettering Cross, Larkfield, Millbrook End, Northwell, Oakhaven, Penrow, Quarrington, Redfern,"
    "Stonebeck, Thistleton, Upper Wexley, Velden, Winterford"
)
ROLES = words(
    "baker, pilot, judge, farmer, nurse, painter, lawyer, plumber, singer, tailor, waiter, banker, dentist,"
    "gardener, barber, butcher, carpenter, sailor, poet, mayor, miner, potter, surgeon, teacher, editor, weaver,"
    "chemist, dancer, florist, jeweller, librarian, mechanic"
)
THINGS = words(
    "bicycle, piano, lamp, violin, tent, camera, clock, guitar, carpet, mirror, telescope, suitcase, ladder, drum,"
    "kettle, wardrobe, armchair, typewriter, umbrella, sofa, map, kayak, bookcase, blanket"
)
SMALL_THINGS = words(
    "apple, stamp, coin, button, marble, candle, pencil, shell, postcard, badge, lemon, ticket, egg, plum, spoon,"
    "bead, bottle, feather, pear, magnet, envelope, onion, pebble, biscuit"
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Event(NamedTuple):
    """Something a person did: the forms of its verb, what follows them, and the past tense in two other styles."""

    base: str
    past: str
    participle: str
    gerund: str
    rest: str
    formal: str
    chat: str

    @property
    def do(self) -> str:
        """The bare infinitive: "wash the car"."""
        return f"{self.base} {self.rest}"

    @property
    def did(self) -> str:
        """The past tense: "washed the car"."""
        return f"{self.past} {self.rest}"

    @property
    def done(self) -> str:
        """The past participle: "washed the car"."""
        return f"{self.participle} {self.rest}"

    @property
    def doing(self) -> str:
        """The gerund: "washing the car"."""
        return f"{self.gerund} {self.rest}"


def _event(line: str) -> Event:
    return Event(*(part.strip() for part in line.split("|")))


#: base | past | participle | gerund | rest | past in formal style | past in chat
EVENTS = pool(
    _event(line)
    for line in """\
wash | washed | washed | washing | the car | cleaned the vehicle | gave the car a wash
cook | cooked | cooked | cooking | dinner | prepared the evening meal | whipped up dinner
paint | painted | painted | painting | the fence | applied paint to the fence | slapped some paint on the fence
feed | fed | fed | feeding | the cat | provided food for the cat | gave the cat its food
repair | repaired | repaired | repairing | the roof | carried out repairs to the roof | patched up the roof
bake | baked | baked | baking | a cake | produced a cake in the oven | threw together a cake
water | watered | watered | watering | the roses | irrigated the rose bushes | gave the roses a drink
clean | cleaned | cleaned | cleaning | the windows | restored the windows to cleanliness | gave the windows a wipe
write | wrote | written | writing | a letter | composed a letter | scribbled a letter
sing | sang | sung | singing | a song | performed a song | belted out a song
mow | mowed | mowed | mowing | the lawn | trimmed the lawn by machine | gave the lawn a quick mow
sweep | swept | swept | sweeping | the yard | removed the dust from the yard | gave the yard a quick sweep
polish | polished | polished | polishing | the boots | restored the shine of the boots | gave the boots a shine
peel | peeled | peeled | peeling | the potatoes | removed the skin of the potatoes | got the potatoes peeled
build | built | built | building | a shed | constructed an outbuilding | knocked up a shed
order | ordered | ordered | ordering | a pizza | placed an order for a pizza | got a pizza in
read | read | read | reading | the newspaper | perused the newspaper | had a flick through the paper
hide | hid | hidden | hiding | the presents | concealed the presents | stashed the presents
call | called | called | calling | the doctor | contacted the physician by telephone | gave the doctor a ring
lock | locked | locked | locking | the gate | secured the gate | got the gate locked up
iron | ironed | ironed | ironing | the shirts | pressed the shirts | ran the iron over the shirts
buy | bought | bought | buying | the tickets | purchased the admission tickets | grabbed the tickets
carry | carried | carried | carrying | the boxes | transported the boxes | lugged the boxes
find | found | found | finding | the keys | located the keys | tracked down the keys
wrap | wrapped | wrapped | wrapping | the parcel | enclosed the parcel in paper | got the parcel all wrapped
catch | caught | caught | catching | a fish | succeeded in catching a fish | bagged a fish
open | opened | opened | opening | the shop | opened the retail premises | got the shop open
knit | knitted | knitted | knitting | a scarf | produced a knitted scarf | churned out a scarf
plant | planted | planted | planting | a tree | introduced a young tree into the soil | stuck a tree in the ground
draw | drew | drawn | drawing | a portrait | executed a portrait in pencil | doodled a portrait
print | printed | printed | printing | the photos | produced prints of the photographs | ran off the photos
fill | filled | filled | filling | the bucket | filled the bucket to capacity | topped up the bucket
""".splitlines()
)


def person(draw: Draw) -> str:
    """Draw a name."""
    return draw.word(PEOPLE)


def people(draw: Draw, k: int) -> list[str]:
    """Draw different names."""
    return draw.words(PEOPLE, k)
