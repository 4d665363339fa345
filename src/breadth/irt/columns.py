"""What readers see of the tables of a difficulty scale: of its questions, its models, the fit, levels and abilities."""

from __future__ import annotations

from breadth.results import Column, Columns

#: Columns that questions share wherever their difficulty is shown.
_QUESTION = Column("item", header="question", priority=1, meaning="the question")
_DIFFICULTY = Column(
    "difficulty",
    format="+.2f",
    priority=1,
    meaning="the ability at which half of the answers are right, beyond guessing; higher is harder, and the average "
    "model has ability 0",
)
_DIFFICULTY_ERROR = Column(
    "difficulty_se", header="error", format=".2f", priority=3, meaning="standard error of the difficulty"
)
_LEVEL = Column("level", format=",d", priority=1, meaning="level of difficulty; 0 is the easiest")
_LEVELS = Column(
    "level_low",
    "level_high",
    format=",d",
    header="may be level",
    priority=3,
    meaning="levels to which the question may belong, by the 95% interval of its difficulty",
)

ITEMS = Columns(
    _QUESTION,
    Column("testset", header="test set", priority=4, meaning="the test set of the question"),
    _DIFFICULTY,
    _DIFFICULTY_ERROR,
    Column("p_correct", header="right", format="share", priority=2, meaning="share of the answers that are right"),
    _LEVEL,
    _LEVELS,
    Column(
        "discrimination",
        header="slope",
        format=".2f",
        priority=4,
        meaning="how sharply the question separates able from less able models; 0 is not at all, below 0 the wrong way",
    ),
    Column("discrimination_se", header="slope error", format=".2f", priority=4, meaning="standard error of the slope"),
    Column("guessing", format=".2f", priority=4, meaning="chance of the least able models to get it right"),
    Column("ceiling", format=".2f", priority=4, meaning="chance of the ablest models to get it right"),
    Column("n", header="answers", format=",d", priority=4, meaning="answers to the question"),
    Column("label", priority=4, meaning="the right answer"),
    Column(
        "point_biserial",
        header="goes with the rest",
        format="+.2f",
        priority=4,
        meaning="correlation of right answers with the score on all other questions",
    ),
    Column(
        "label_doubt",
        header="doubt about the label",
        format=".1f",
        priority=4,
        meaning="by how many standard errors the question runs against the others; empty where it does not clearly",
    ),
    Column(
        "infit", format=".2f", priority=4, meaning="noise of answers near the difficulty; 1 is what the scale expects"
    ),
    Column("outfit", format=".2f", priority=4, meaning="noise of surprising answers; 1 is what the scale expects"),
    Column("flag", priority=4, meaning="code of what is wrong with the question"),
    Column("note", priority=2, words=True, meaning="what is wrong with the question"),
)

SUBJECTS = Columns(
    Column("subject", header="model", priority=1, meaning="the model, or the checkpoint of a run"),
    Column(
        "ability",
        format="+.2f",
        priority=1,
        meaning="how able it is; the average model of the difficulty scale has 0, and two in three lie within 1 of it",
    ),
    Column("ability_low", "ability_high", format="+.2f", priority=2, meaning="95% interval of the ability"),
    Column("ability_se", header="error", format=".2f", priority=3, meaning="standard error of the ability"),
    Column("n", header="answers", format=",d", priority=3, meaning="questions that it answered"),
    Column("infit", format=".2f", priority=4, meaning="noise of answers to questions near its ability; 1 is expected"),
    Column("outfit", format=".2f", priority=4, meaning="noise of surprising answers; 1 is what the scale expects"),
    Column("flag", priority=4, meaning="code of what is wrong with the measurement"),
    Column("note", priority=2, words=True, meaning="what is wrong with the measurement"),
)

FIT = Columns(
    Column("model", priority=1, meaning="kind of difficulty scale: 1pl (one slope), 2pl (own slopes), 3pl (guessing)"),
    Column("subjects", header="models", format=",d", priority=1, meaning="models with answers"),
    Column("items", header="questions", format=",d", priority=1, meaning="questions with answers"),
    Column("responses", header="answers", format=",d", priority=2, meaning="answers that were used"),
    Column(
        "reliability",
        format=".2f",
        priority=1,
        meaning="how alike other such questions would rank the models, from 0 to 1",
    ),
    Column(
        "score_correlation",
        header="ability and score",
        format=".2f",
        priority=2,
        meaning="rank correlation of ability with the share of right answers",
    ),
    Column(
        "against_scale",
        header="against the scale",
        format="share",
        priority=2,
        meaning="share of questions that abler models clearly get wrong more often",
    ),
    Column(
        "main_correlation",
        header="main difference and score",
        format=".2f",
        priority=3,
        meaning="rank correlation of what models differ in most with their score",
    ),
    Column(
        "against_main",
        header="against the main difference",
        format="share",
        priority=3,
        meaning="share of questions that run clearly against what models differ in most",
    ),
    Column("chance", format="share", priority=3, meaning="probability of a right answer by guessing"),
    Column("subjects_at_chance", header="models at chance", format=",d", priority=3, meaning="models that may guess"),
    Column(
        "items_at_chance",
        header="questions at chance",
        format=",d",
        priority=3,
        meaning="questions that are not clearly answered better than by guessing",
    ),
    Column("converged", format="flag", priority=3, meaning="whether the numbers had settled when the fit stopped"),
    Column("iterations", format=",d", priority=4, meaning="rounds of the fit"),
    Column("log_likelihood", header="log-likelihood", format=",.1f", priority=4, meaning="how well the scale fits"),
    Column("aic", header="AIC", format=",.1f", priority=4, meaning="Akaike's criterion, to compare kinds of scales"),
    Column("bic", header="BIC", format=",.1f", priority=4, meaning="the criterion of Schwarz, to compare kinds"),
    Column("parameters", format=",d", priority=4, meaning="numbers that were estimated"),
    Column("ability_mean", header="mean ability", format=".2f", priority=4, meaning="mean ability of the models"),
    Column("ability_sd", header="spread of ability", format=".2f", priority=4, meaning="its standard deviation"),
    Column("blocks", format=",d", priority=4, meaning="groups of answers that share no model and no question"),
    Column("block_sizes", header="sizes", words=True, priority=4, meaning="models and questions of these groups"),
)

LEVELS = Columns(
    _QUESTION,
    _DIFFICULTY,
    _DIFFICULTY_ERROR,
    _LEVEL,
    _LEVELS,
    Column("certainty", format="share", priority=2, meaning="chance that the question belongs to this level"),
)

LEVEL_SUMMARY = Columns(
    Column("level", format=",d", priority=1, meaning="level of difficulty; 0 is the easiest"),
    Column("items", header="questions", format=",d", priority=1, meaning="questions of the level"),
    Column(
        "from", "to", header="difficulty", format="+.2f", priority=1, meaning="easiest and hardest of its questions"
    ),
    Column(
        "certainty",
        format="share",
        priority=1,
        meaning="mean chance that one of its questions belongs to this level and not to a neighbour",
    ),
    Column(
        "sure",
        header="surely here",
        format="share",
        priority=2,
        meaning="share of its questions whose 95% interval lies within the level",
    ),
)

STABILITY = Columns(
    Column("subjects", header="models", format=",d", priority=1, meaning="models in each of two samples"),
    Column("same_level", header="same level", format="share", priority=1, meaning="questions that both put alike"),
    Column(
        "within_one",
        header="at most one apart",
        format="share",
        priority=1,
        meaning="questions that the two samples put on the same level or on neighbours",
    ),
    Column(
        "rank_correlation",
        header="rank correlation",
        format=".2f",
        priority=2,
        meaning="of the difficulties that the two samples give, from −1 to 1",
    ),
    Column("repeats", format=",d", priority=4, meaning="times that two samples were drawn"),
)
