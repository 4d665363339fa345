"""What a study file may say about what is evaluated, and what it may not."""

HEAD = "name: s\nmodels: smollm2-135m\n"
TRAIN = "train: {set: plain, examples: 16}\n"
RECIPE = "recipe: {method: lora, steps: 4}\n"


def test_a_loss_of_the_whole_vocabulary_needs_answers(study, problems):
    recipe = "recipe: {method: lora, steps: 4, loss: vocabulary}\n"
    assert study(f"{HEAD}{TRAIN}{recipe}evaluate: {{on: plain}}\n").study.recipe.loss == "vocabulary"
    (line,) = problems(f"{HEAD}train: {{set: arc}}\n{recipe}evaluate: {{on: arc}}\n")
    assert line.startswith("line 3, train.set")
    assert "loss to completion" in line


def test_the_likeliest_token_is_not_asked_of_an_endpoint(problems):
    models = "models: {endpoint: 'http://localhost:8000/v1', model: m}\n"
    text = f"name: s\n{models}recipe: {{method: zero-shot}}\nevaluate: {{on: plain, predict: vocabulary}}\n"
    (line,) = problems(text)
    assert line.startswith("line 4, evaluate.predict")


def test_the_likeliest_token_is_of_no_use_without_answers(study):
    text = f"{HEAD}recipe: {{method: zero-shot}}\nevaluate: {{on: arc, predict: vocabulary}}\n"
    (warning,) = study(text).warnings
    assert warning.startswith("line 4, evaluate.predict")
    assert study(text.replace("arc", "plain")).warnings == ()


def test_only_test_sets_are_split(study, problems):
    text = (
        f"{HEAD}recipe: {{method: zero-shot}}\nevaluate: {{on: [plain, negation], split_by: {{negaton: template}}}}\n"
    )
    (line,) = problems(text)
    assert line.startswith("line 4, evaluate.split_by.negaton")
    assert "Did you mean negation?" in line
    assert study(text.replace("negaton", "negation")).study.evaluate.split_by == {"negation": ["template"]}
    (line,) = problems(text.replace("negaton: template", "negation: [template, template]"))
    assert "more than once" in line


def test_training_examples_take_training(study, problems):
    evaluate = "evaluate: {on: plain, training: true}\n"
    assert study(f"{HEAD}{TRAIN}{RECIPE}{evaluate}").study.evaluate.training
    (line,) = problems(f"{HEAD}recipe: {{method: zero-shot}}\n{evaluate}")
    assert line.startswith("line 4, evaluate.training")
    (line,) = problems(f"{HEAD}{TRAIN}{RECIPE}evaluate: {{on: plain, training: 1.5}}\n")
    assert line.startswith("line 5, evaluate.training")
