"""One fact and a hypothesis about it, in ``everyday`` and ``workplace``, with the shortcuts of collected data sets.

Every line is a contrast: what somebody did and a paraphrase of it, then the opposite and its paraphrase. Labels are
true by construction, but hypotheses differ between labels: those that follow mostly repeat the premise, those that do
not mostly negate it. So a small model learns this set within minutes, as it learns collected sets, largely from words
such as "not"; the other sets show whether that carries over.

``workplace`` is what people do at work, with other phrases and the same cues. The mildest shift of the suite: what a
model learns of ``everyday`` from cues carries over to it, so that a study has a set that can be expected to follow,
beside sets that can only be answered by reading.
"""

from __future__ import annotations

from typing import NamedTuple

from breadth.datasets.suite.templates import DAYS, TOWNS, Draw, Family, Texts, WordPool, person, pool, sentence, texts


class StatementAndParaphrase(NamedTuple):
    """A statement about somebody, and a paraphrase."""

    statement: str
    paraphrase: str


class Contradiction(NamedTuple):
    """Two statements that cannot both be true."""

    first: StatementAndParaphrase
    second: StatementAndParaphrase


def read_contradictions(text: str) -> WordPool[Contradiction]:
    """A pool from lines of four phrases: statement | paraphrase | opposite | paraphrase of the opposite."""
    rows = [[part.strip() for part in line.split("|")] for line in text.strip().splitlines()]
    return pool(Contradiction(StatementAndParaphrase(*row[:2]), StatementAndParaphrase(*row[2:])) for row in rows)


MOODS = read_contradictions("""
burst out laughing | was amused | burst into tears | was upset
grinned from ear to ear | was delighted | wept all evening | was miserable
shouted at everyone in sight | was furious | stayed perfectly calm | was relaxed
trembled with fear | was scared | showed no fear at all | was brave
yawned again and again | was tired | felt full of energy | was wide awake
could hardly wait for the trip | was excited about the trip | dreaded the trip | was worried about the trip
loved every minute of the film | enjoyed the film | hated every minute of the film | disliked the film
praised the new teacher | liked the teacher | complained about the new teacher | was against the teacher
smiled at the neighbours | was friendly to the neighbours | yelled at the neighbours | was rude to the neighbours
found the lecture fascinating | was interested in the lecture | slept through the lecture | was bored by the lecture
was proud of the result | was pleased with the result | was ashamed of the result | was unhappy with the result
trusted the guide completely | believed the guide | suspected the guide of lying | doubted the guide
""")
CONTESTS = read_contradictions("""
won the race | came first in the race | came in after all the others | was beaten in the race
passed the exam | succeeded in the exam | failed the exam | did badly in the exam
was chosen for the team | got a place in the team | was left out of the team | did not make the team
broke the club record | did better than anyone before | came nowhere near the club record | did worse than others before
solved the puzzle | found the answer to the puzzle | gave up on the puzzle | never found the answer to the puzzle
caught the last bus | was in time for the bus | missed the last bus | was too late for the bus
reached the summit | made it to the top of the mountain | turned back half way up | never saw the top of the mountain
got the job | was hired | was turned down for the job | was rejected
remembered the password | still knew the password | forgot the password | could not recall the password
kept the promise | did as promised | broke the promise | did not do as promised
paid the whole bill | owed nothing | left without paying | owed money
finished the book | read to the last page | put the book away half read | never got to the last page
""")
HABITS = read_contradictions("""
never eats meat | is a vegetarian | has steak for dinner every night | eats a lot of meat
gets up before sunrise | is an early riser | stays in bed until noon | sleeps late
gives money to every beggar | is generous | keeps every penny | is mean with money
talks without stopping | is talkative | hardly ever says a word | is quiet
runs ten miles every day | is very fit | gets out of breath on the stairs | is badly out of shape
washes the floor every day | keeps a clean house | has not cleaned the floor for months | lives in a dirty house
tells the truth whatever happens | is honest | tells lies all the time | is dishonest
knows how to repair anything | is good with tools | cannot even hold a hammer | is clumsy with tools
drives far too fast | is a reckless driver | always keeps to the speed limit | is a careful driver
lives all alone | has nobody else at home | shares a house with five friends | lives with others
owns three castles | is rich | cannot afford shoes | is poor
is the tallest in the class | is taller than the others | is the smallest in the class | is shorter than the others
""")
CHANGES = read_contradictions("""
bought a farm | became the owner of a farm | sold the farm | gave up owning a farm
moved abroad | left the country | came home from abroad | returned to the country
got married | found a husband or a wife | got divorced | ended a marriage
put on a thick coat | dressed warmly | took off the coat | wore less than before
switched the light on | made the room bright | switched the light off | made the room dark
filled the bathtub | let water into the bathtub | emptied the bathtub | let the water out of the bathtub
fell ill | became sick | got over the illness | became healthy
broke the vase | damaged the vase | mended the vase | repaired the vase
opened all the windows | let fresh air in | shut all the windows | kept the air out
started smoking | took up a bad habit | stopped smoking | gave up a bad habit
set the dog free | released the dog | tied the dog up | kept the dog from running away
borrowed a large sum | went into debt | paid back every loan | got out of debt
""")
PLACES = read_contradictions("""
spent the day in bed | stayed at home | spent the day on the beach | was out of the house
went up to the roof | climbed to the top of the house | went down to the cellar | was below the ground
sat down on a bench | took a seat | stood by the door all evening | remained standing
swam across the lake | was in the water | lay on the dry grass | was on land
slept in a tent | spent the night outdoors | slept in a hotel | spent the night indoors
worked in the fields | worked outside | worked in a small office | worked inside
flew over the mountains | travelled by air | walked over the mountains | travelled on foot
arrived before all the others | was early | arrived after all the others | was late
waited in the rain | got wet | waited under a roof | stayed dry
sat next to the stove | was near the fire | sat far away from the stove | was nowhere near the fire
entered the shop | went in | walked out of the shop | went out
rode through the desert | was in a hot and dry place | rode through deep snow | was in a cold place
""")
THINGS = read_contradictions("""
has a car that is brand new | owns a new car | has a car that is fifty years old | owns an old car
carried a suitcase full of bricks | carried something heavy | carried a bag of feathers | carried something light
drank a cup of boiling tea | had a hot drink | drank a glass of iced water | had a cold drink
wore a scarf as white as snow | had a white scarf on | wore a scarf as black as coal | had a black scarf on
paid a fortune for a painting | bought an expensive painting | got a painting for a penny | bought a cheap painting
walked along a road without end | took a long road | walked along a very short path | took a short path
lifted a stone as big as a house | moved something huge | lifted a grain of sand | moved something tiny
heard a deafening bang | heard a loud noise | heard a faint whisper | heard a soft sound
slept on a mattress like a cloud | had a soft bed | slept on bare stones | had a hard bed
crossed a very wide river | crossed a broad river | crossed a tiny stream | crossed a narrow stream
ate a lemon without sugar | ate something sour | ate a spoon of honey | ate something sweet
did a sum that a child can do | did something easy | did a sum that had puzzled experts | did something difficult
""")


#: Per cent of each kind of hypothesis: (statement repeated, paraphrased, opposite negated) where it follows, and
#: (statement negated, opposite stated, opposite paraphrased) where it does not.
FOLLOWING, OPPOSED = (70, 20, 10), (65, 15, 20)


def _hypothesis(
    draw: Draw, who: str, true: StatementAndParaphrase, false: StatementAndParaphrase, follows: bool
) -> str:
    """Affirm the statement in one of three ways, or contradict it in one of three."""
    place = draw.below(100)
    shares = FOLLOWING if follows else OPPOSED
    kind = 0 if place < shares[0] else 1 if place < shares[0] + shares[1] else 2
    if follows:
        kinds = (f"{who} {true.statement}", f"{who} {true.paraphrase}", f"It is not true that {who} {false.statement}")
    else:
        kinds = (f"It is not true that {who} {true.statement}", f"{who} {false.statement}", f"{who} {false.paraphrase}")
    return kinds[kind]


def contrast_family(name: str, phrases: WordPool[Contradiction], now: bool = False) -> Family:
    """Items on contrasts, with shortcuts; ``now`` if they say what somebody is or does, not what somebody did once."""

    def write(draw: Draw, follows: bool) -> Texts:
        """State one side of a contrast and ask about it."""
        who, contrast = person(draw), draw.word(phrases)
        town, day = draw.word(TOWNS), draw.one(DAYS)
        true, false = contrast if draw.flip() else (contrast.second, contrast.first)
        fact = f"{who} {true.statement}"
        scenes = (
            (f"{who}, who comes from {town}, {true.statement}", f"People in {town} say that {fact}")
            if now
            else (f"last {day} in {town}, {fact}", f"{fact} last {day}, as we heard in {town}")
        )
        return texts(sentence(draw.one(scenes)), sentence(_hypothesis(draw, who, true, false, follows)))

    return Family(name, write)


FAMILIES = (
    contrast_family("mood", MOODS),
    contrast_family("contest", CONTESTS),
    contrast_family("habit", HABITS, now=True),
    contrast_family("step", CHANGES),
    contrast_family("place", PLACES),
    contrast_family("thing", THINGS, now=True),
)

# What people do at work: other phrases, the same cues.

OFFICE = read_contradictions("""
signed the contract | agreed to the contract | tore up the contract | refused the contract
answered every message | replied to everybody | ignored every message | replied to nobody
led the meeting | was in charge of the meeting | skipped the meeting | was absent from the meeting
hired four assistants | made the team larger | dismissed four assistants | made the team smaller
asked for a pay rise | wanted more money | offered to work for nothing | wanted no money
locked the filing cabinet | secured the files | left the filing cabinet open | left the files unprotected
handed in the report on Monday | met the deadline | had not begun the report by Friday | broke the deadline
defended the new plan | supported the plan | attacked the new plan | opposed the plan
was promoted | rose to a higher post | was demoted | sank to a lower post
kept the news secret | told nobody the news | announced the news to all the staff | told everybody the news
doubled the price | made the product dearer | cut the price by half | made the product cheaper
resigned from the board | left the board | joined the board | became a member of the board
""")
WORKSHOP = read_contradictions("""
sharpened the saw | gave the saw an edge | ruined the teeth of the saw | made the saw blunt
loaded the lorry | put goods on the lorry | unloaded the lorry | took goods off the lorry
fixed the engine | got the engine to run | wrecked the engine | put the engine out of action
wore a helmet all day | protected the head | went without a helmet all day | risked a head injury
heated the metal until it glowed | made the metal hot | left the metal in the snow | let the metal get cold
built a wall around the yard | closed off the yard | pulled down the wall around the yard | opened up the yard
measured every board twice | worked with care | guessed the length of every board | worked carelessly
polished the brass handles | made the handles shine | let the brass handles rust | made the handles dull
raised the flag over the dock | hoisted the flag | lowered the flag over the dock | hauled the flag down
filled the tank with oil | had plenty of oil | drained the last oil from the tank | ran out of oil
welded the two pipes | joined the pipes | sawed the pipe in two | parted the pipe
stopped the machine | brought the machine to rest | started the machine | set the machine in motion
""")
SERVICE = read_contradictions("""
treats every customer with respect | is polite to customers | insults every customer | is offensive to customers
speaks nine languages at work | is good at languages | knows only one language | is poor at languages
works seven days a week | is hard-working | takes every other day off | is lazy
reads every clause before signing | is cautious | signs without looking | is rash
delivers every parcel on time | is punctual | delivers every parcel days late | is never on time
knows every guest by name | has a good memory for names | mixes up all the names | has a bad memory for names
charges very little | is cheap to hire | charges a fortune | is expensive to hire
shares every tip with the cook | is fair to the cook | pockets every tip | is unfair to the cook
learnt the trade in a week | is a quick learner | needed ten years to learn the trade | is a slow learner
keeps the counter spotless | has a tidy counter | leaves crumbs all over the counter | has a messy counter
carries four trays at once | has steady hands | drops every tray | has shaky hands
started only this morning | is new to the job | has served there for thirty years | is an old hand at the job
""")
MARKET = read_contradictions("""
sold the whole harvest | got rid of the harvest | found no buyer for the harvest | was left with the harvest
weighed the grain honestly | gave the right weight | put a thumb on the scales | cheated on the weight
opened a second stall | made the business bigger | closed the second stall | cut the business down
bought on credit | paid later | paid in cash at once | did not wait to pay
trusted the new supplier | had faith in the supplier | checked up on the new supplier | was wary of the supplier
packed the eggs in straw | kept the eggs safe | threw the eggs into a bag | put the eggs at risk
outbid the rival | offered more than the rival | was outbid by the rival | offered less than the rival
told the buyer about the crack | was open about the flaw | hid the crack from the buyer | concealed the flaw
made a large profit | ended up richer | lost a large sum | ended up poorer
set up the stall at dawn | began early | set up the stall in the afternoon | began late
raised the quality of the cloth | offered better cloth | used poorer yarn for the cloth | offered worse cloth
called out to every passer-by | was easy to hear | waited in silence for customers | made no sound
""")

AT_WORK = (
    contrast_family("office", OFFICE),
    contrast_family("workshop", WORKSHOP),
    contrast_family("service", SERVICE, now=True),
    contrast_family("market", MARKET),
)
