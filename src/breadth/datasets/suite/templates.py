"""The building blocks of templates: reproducible draws, template families, English grammar and word pools.

Every word pool is split between train and test, which share no word of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np

S = TypeVar("S")
T = TypeVar("T")

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

#: Random numbers are drawn from numpy in batches; one call per number would dominate the running time.
BATCH = 1024


class WordPool(NamedTuple, Generic[T]):
    """The words that may fill a slot, in two disjoint halves."""

    train: tuple[T, ...]
    test: tuple[T, ...]


def pool(choices: Iterable[T]) -> WordPool[T]:
    """Assign words to train and test alternately."""
    everything = tuple(choices)
    return WordPool(everything[0::2], everything[1::2])


def word_pool(text: str) -> WordPool[str]:
    """Make a pool from comma-separated words."""
    return pool(" ".join(word.split()) for word in text.split(","))


class Draw:
    """Draws words for one split from one random stream.

    It uses only ``Generator.random``, whose stream is stable across numpy versions; ``choice`` and ``permutation``
    may change between versions, which would change every item.
    """

    def __init__(self, seeds: Sequence[int], split: Split) -> None:
        """Start the stream identified by ``seeds``."""
        self.split: Split = split
        self._generator = np.random.Generator(np.random.PCG64(list(seeds)))
        self._batch: list[float] = []

    def below(self, k: int) -> int:
        """Draw one of 0, ..., k - 1."""
        if not self._batch:
            self._batch = self._generator.random(BATCH).tolist()
        return int(self._batch.pop() * k)

    def between(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, inclusive."""
        return low + self.below(high - low + 1)

    def flip(self) -> bool:
        """Toss a fair coin."""
        return self.below(2) == 1

    def one(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.below(len(options))]

    def several(self, options: Sequence[T], k: int) -> list[T]:
        """Draw ``k`` distinct options in random order."""
        left = list(options)
        for i in range(k):
            j = self.between(i, len(left) - 1)
            left[i], left[j] = left[j], left[i]
        return left[:k]

    def matched(self, follows: bool, first: tuple[S, T], second: tuple[S, T]) -> tuple[S, T]:
        """Draw one of two facts (the second elements), with its own subject if ``follows``, else with the other's."""
        (own, fact), (other, _) = (first, second) if self.flip() else (second, first)
        return (own if follows else other), fact

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Shuffle the options."""
        return self.several(options, len(options))

    def word(self, choices: WordPool[T]) -> T:
        """Draw a word of this split."""
        return self.one(self._of(choices))

    def words(self, choices: WordPool[T], k: int) -> list[T]:
        """Draw ``k`` distinct words of this split."""
        return self.several(self._of(choices), k)

    def _of(self, choices: WordPool[T]) -> tuple[T, ...]:
        return choices.train if self.split == "train" else choices.test


Style = Literal["plain", "formal", "chat"]


class Text(NamedTuple):
    """A premise and a hypothesis."""

    premise: str
    hypothesis: str


class Texts(NamedTuple):
    """One item in up to three styles; sets without style variants have only the plain one."""

    plain: Text
    formal: Text | None = None
    chat: Text | None = None

    def written(self) -> tuple[Text, ...]:
        """The texts of all styles that exist."""
        return tuple(text for text in self if text is not None)


class Family(NamedTuple):
    """A template family: ``write(draw, follows)`` writes an item whose hypothesis follows or does not.

    The form of a hypothesis must not depend on ``follows``, so that the hypothesis alone says nothing about the label;
    where possible, the same holds for premises.
    """

    template: str
    write: Callable[[Draw, bool], Texts]
    steps: int | None = None


def families(*writers: Callable[[Draw, bool], Texts]) -> tuple[Family, ...]:
    """Families named after the functions that write them."""
    return tuple(Family(write.__name__, write) for write in writers)


def texts(premise: str, hypothesis: str) -> Texts:
    """An item in the plain style only."""
    return Texts(Text(premise, hypothesis))


class TestSet(NamedTuple):
    """What a test set measures, its kind of shift, its template families and its style.

    ``stream`` keeps the random streams of test sets apart; the three styles of one content share it. Never renumber.
    """

    description: str
    shift: str
    stream: int
    families: tuple[Family, ...]
    style: Style = "plain"


#: Words whose spelling does not show how they begin in speech.
SOUNDS_LIKE_CONSONANT = ("uni", "use", "usu", "eu", "one", "once")
SOUNDS_LIKE_VOWEL = ("hour", "honest", "heir", "honour")


def a(noun: str) -> str:
    """Add the indefinite article.

    >>> a("umbrella"), a("uniform"), a("hour")
    ('an umbrella', 'a uniform', 'an hour')
    """
    lowered = noun.lower()
    vowel = lowered[0] in "aeiou" and not lowered.startswith(SOUNDS_LIKE_CONSONANT)
    return f"{'an' if vowel or lowered.startswith(SOUNDS_LIKE_VOWEL) else 'a'} {noun}"


def listing(parts: Sequence[str], word: str = "and") -> str:
    """Join with commas and a final conjunction: "Ann, Bob and Cy"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def sentence(text: str) -> str:
    """Capitalise the first letter and end with a full stop, unless the text ends with its own punctuation."""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?”" else ".")


def sentences(*texts: str) -> str:
    """Make a sentence of each text and join them."""
    return " ".join(sentence(text) for text in texts)


def plural(noun: str) -> str:
    """The regular plural of a noun; the pools contain no irregular nouns."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


WOMEN = word_pool(
    "Alice, Amelia, Anna, Beatrice, Bella, Camilla, Carla, Celia, Clara, Daphne, Diana, Edith, Eleanor, Elena, Emma,"
    "Esther, Fiona, Flora, Grace, Greta, Hannah, Helen, Irene, Isabel, Julia, Laura, Leila, Lucy, Maria, Martha,"
    "Matilda, Miriam, Nadia, Nina, Olivia, Paula, Phoebe, Rachel, Rosa, Ruth, Sarah, Sofia, Stella, Susan, Teresa,"
    "Vera, Wendy, Yvonne"
)
MEN = word_pool(
    "Adam, Albert, Alfred, Andrew, Arthur, Ben, Brian, Bruno, Carlos, Daniel, David, Edgar, Edward, Eric, Felix,"
    "Frank, Fred, George, Gordon, Harold, Henry, Hugo, Ivan, Jack, Jacob, John, Karl, Kevin, Leo, Louis, Luke,"
    "Marcus, Martin, Max, Michael, Nathan, Neil, Oliver, Oscar, Patrick, Paul, Peter, Ralph, Robert, Simon,"
    "Stephen, Thomas, Victor"
)
PEOPLE = WordPool(WOMEN.train + MEN.train, WOMEN.test + MEN.test)

SURNAMES = word_pool(
    "Abbott, Barlow, Carver, Dawson, Ellery, Fletcher, Garner, Holloway, Irwin, Jarvis, Kendall, Lambert, Mercer,"
    "Norwood, Osborn, Prescott, Quigley, Redmond, Sawyer, Thornton, Underhill, Vickers, Whitlock, Yardley"
)
TOWNS = word_pool(
    "Ashcombe, Barrowdale, Brindley, Calderwick, Cranmoor, Dunfold, Easterby, Fallowmere, Glenholt, Hartsea,"
    "Inverlea, Kettering Cross, Larkfield, Millbrook End, Northwell, Oakhaven, Penrow, Quarrington, Redfern,"
    "Stonebeck, Thistleton, Upper Wexley, Velden, Winterford"
)
ROLES = word_pool(
    "baker, pilot, judge, farmer, nurse, painter, lawyer, plumber, singer, tailor, waiter, banker, dentist,"
    "gardener, barber, butcher, carpenter, sailor, poet, mayor, miner, potter, surgeon, teacher, editor, weaver,"
    "chemist, dancer, florist, jeweller, librarian, mechanic"
)
THINGS = word_pool(
    "bicycle, piano, lamp, violin, tent, camera, clock, guitar, carpet, mirror, telescope, suitcase, ladder, drum,"
    "kettle, wardrobe, armchair, typewriter, umbrella, sofa, map, kayak, bookcase, blanket"
)
SMALL_THINGS = word_pool(
    "apple, stamp, coin, button, marble, candle, pencil, shell, postcard, badge, lemon, ticket, egg, plum, spoon,"
    "bead, bottle, feather, pear, magnet, envelope, onion, pebble, biscuit"
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Event(NamedTuple):
    """Something a person did: the verb forms, the rest of the phrase, and the past tense in two other styles."""

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
    """Draw distinct names."""
    return draw.words(PEOPLE, k)
