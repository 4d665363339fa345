"""What people do at work, with the shortcuts of ``everyday``: other phrases, the same cues.

The mildest shift of the suite. What a model learns of ``everyday`` from cues carries over to here, so that a study has
a set that can be expected to follow, beside sets that can only be answered by reading.
"""

from __future__ import annotations

from breadth.datasets.suite.everyday import contrast_family, contrasts

OFFICE = contrasts("""
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
WORKSHOP = contrasts("""
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
SERVICE = contrasts("""
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
MARKET = contrasts("""
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

FAMILIES = (
    contrast_family("office", OFFICE),
    contrast_family("workshop", WORKSHOP),
    contrast_family("service", SERVICE, now=True),
    contrast_family("market", MARKET),
)
