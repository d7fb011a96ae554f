"""Questions: instruction, order and marks; the right answer stays right."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from orchestrator.benchmarks.reform.benchmark import BENCHMARK, metrics, needs, samples
from orchestrator.benchmarks.reform.datasets import DATASETS
from orchestrator.benchmarks.reform.families import Item
from orchestrator.benchmarks.reform.instructions import FORMAT, OWN, wording
from orchestrator.benchmarks.reform.questions import options_of, question_of
from orchestrator.benchmarks.reform.settings import PRESETS, ReformSettings, Switches, switches
from orchestrator.benchmarks.reform.synthetic import rows
from orchestrator.errors import ConfigError
from orchestrator.samples import Variant

GQA = DATASETS["reform_gqa"]
ITEM = Item(7, "Which?", ("red", "blue", "red", "tan"), 1, rebuilt=True)


def variant(task="reform_gqa", **options):
    settings = ReformSettings(**options.pop("settings", {}))
    return Variant(task, settings=settings, **options)


def make_question(item=ITEM, number=0, dataset=GQA, chosen=None, **options):
    chosen = chosen or variant(dataset.task, **options)
    return question_of(item, "7", number, dataset, wording(dataset), switches(chosen, dataset), chosen)


def first(task, **options):
    return next(iter(samples(next(rows(task, 0)), variant(task, **options))))


def test_default_shows_an_example_and_upper_marks():
    question = make_question()
    assert question.marks.startswith("ABC")
    assert question.history[1]["value"] == "(A) yes"
    assert question.instruct == OWN["vqa"].generation[0]


def test_instructions_cycle_over_rows_or_repeats():
    texts = OWN["vqa"].generation
    off = {"settings": {"random_instruct": "off"}}
    assert [make_question(number=number).instruct for number in range(6)] == [*texts, texts[0]]
    assert {make_question(number=3, repeats=5, repeat=repeat, **off).instruct for repeat in range(5)} == {texts[3]}
    assert [make_question(number=3, repeats=6, repeat=repeat).instruct for repeat in range(6)] == [*texts, texts[0]]


def test_wordings_of_a_question_are_chosen_likewise():
    item = replace(ITEM, question=("a", "b", "c"))
    assert [make_question(item, number=number).text for number in range(4)] == ["a", "b", "c", "a"]
    assert make_question(item, repeats=5, repeat=2).text == "c"


def test_shuffled_options_keep_the_answer_and_drop_its_doubles():
    item = replace(ITEM, answer=0)
    seen = set()
    for repeat in range(20):
        question = make_question(item, shuffle_options=True, repeat=repeat, repeats=20)
        assert question.options[question.right] == "red"
        assert sorted(question.options) == ["blue", "red", "tan"]
        seen.add(question.options)
    assert len(seen) > 3
    assert make_question(item).options == item.options
    assert make_question(item).doubles == (0, 2)


def test_lists_that_are_not_rebuilt_keep_doubles_and_the_right_one_of_them():
    item = replace(ITEM, rebuilt=False, answer=2, options=("red", "blue", "red"))
    for repeat in range(10):
        question = make_question(item, shuffle_options=True, repeat=repeat)
        assert sorted(question.options) == ["blue", "red", "red"]
        assert question.options[question.right] == "red"


def test_what_is_drawn_depends_on_seed_and_repeat_alone():
    item = Item(7, "q", answer="3", pool=tuple(range(20)))
    drawn = [make_question(item, seed=seed, repeat=repeat).options for seed in (0, 1) for repeat in (0, 1)]
    assert len(set(drawn)) == 4
    assert all(options[3] == "3" and len(set(options)) == 4 for options in drawn)
    assert make_question(item, seed=1).options == make_question(item, seed=1).options


def test_an_answer_outside_the_pool_still_gets_three_distractors():
    options, right = options_of(Item(1, "q", answer="42", pool=("1", "2", "3")), 1, Switches(), variant())
    assert options[right] == "42"
    assert len(options) == 4


def test_slots_are_filled_whatever_braces_they_hold():
    dataset = DATASETS["reform_mscoco_itm"]
    item = Item(0, None, ("no", "yes"), 1, slot="a {} b {0}")
    for number in range(5):
        question = make_question(item, number=number, dataset=dataset)
        assert "a {} b {0}" in question.text
        assert question.instruct is None


def test_fixed_question_and_suffix():
    winoground, mocheg = DATASETS["reform_winoground"], DATASETS["reform_mocheg"]
    assert make_question(dataset=winoground).text == OWN["description"].question["generation"]
    likely = variant("reform_winoground", method="likelihood")
    assert make_question(dataset=winoground, chosen=likely).text == OWN["description"].question["likelihood"]
    likely = variant("reform_mocheg", method="likelihood")
    assert make_question(dataset=mocheg, chosen=likely).instruct.endswith("not enough information.")
    assert not make_question(dataset=mocheg).instruct.endswith("not enough information.")


def test_captions_take_the_repeats_instruction_or_draw_one():
    dataset = DATASETS["reform_mscoco"]
    item = Item(0, None, answer=("a bus",))
    texts = OWN["captions"].generation
    assert [make_question(item, dataset=dataset, repeats=5, repeat=repeat).text for repeat in range(5)] == list(texts)
    drawn = {question_of(item, str(row), 0, dataset, wording(dataset), Switches(), variant()).text for row in range(40)}
    assert drawn == set(texts)


def test_the_prefix_is_forgotten_only_where_the_reference_forgets_it_and_under_parity():
    dataset = DATASETS["reform_pets37"]
    style = {"prompt_style": "lynx"}
    assert make_question(dataset=dataset, settings=style).history[1]["value"] == "The answer is (A) yes"
    assert make_question(dataset=dataset, settings=style, parity=True).history[1]["value"] == "(A) yes"
    assert make_question(settings=style, parity=True).history[1]["value"] == "The answer is (A) yes"
    assert make_question(settings=style, method="likelihood").history[1]["value"] == "(A) yes"
    assert make_question(settings={"prompt_style": "blip2"}).history[1]["value"] == "(A) yes"


def test_vsr_options_end_in_full_stops():
    sample = first("reform_vsr")
    assert all(option.endswith(".") for option in sample.turns[0].scoring.options)


@pytest.mark.parametrize(
    ("task", "options", "rule"),
    [
        ("reform_gqa", {}, "choice"),
        ("reform_gqa", {"parity": True}, "reform_choice"),
        ("reform_gqa", {"method": "likelihood"}, "likelihood"),
        ("reform_gqa", {"method": "likelihood", "parity": True}, "reform_choice"),
        ("reform_ic15", {}, "contains_word"),
        ("reform_ic15", {"parity": True}, "reform_ocr"),
        ("reform_funsd", {}, "key_information"),
        ("reform_funsd", {"parity": True, "method": "likelihood"}, "reform_kie"),
        ("reform_poie", {}, "contains_word"),
        ("reform_poie", {"settings": {"formulation": "KIEOpenEnded"}}, "key_information"),
        ("reform_mscoco", {}, "caption"),
    ],
)
def test_rules(task, options, rule):
    assert first(task, **options).turns[0].scoring.rule == rule


def test_scoring_speaks_of_options_as_shown():
    mark = {"settings": {"option_mark": "lower"}}
    scoring = first("reform_gqa", **mark).turns[0].scoring
    assert scoring.params == {"labels": ["a", "b", "c", "d"]}
    index = "abcd".index(scoring.targets[0][1])
    assert scoring.targets[0][::2] == "()"
    parity = first("reform_gqa", parity=True, **mark).turns[0].scoring
    assert parity.targets == (str(index),)
    likely = first("reform_gqa", method="likelihood", settings={"likelihood_reduction": "mean"}).turns[0].scoring
    assert likely.targets == (scoring.options[index],)
    assert likely.params == {"reduction": "mean"}


def test_calls():
    call = first("reform_flickr30k").turns[0].ask([])
    assert call.config.max_output_tokens == 16
    assert call.config.temperature == 0
    call = first("reform_gqa", settings={"max_new_tokens": 99, "temperature": 0.2}).turns[0].ask([])
    assert (call.config.max_output_tokens, round(call.config.temperature, 3)) == (99, 0.2)
    assert call.config.HasField("seed")
    call = first("reform_gqa", method="likelihood").turns[0].ask([])
    assert len(call.continuations) == 4
    assert "Options" not in call.messages[-1].parts[-1].text
    assert not first("reform_funsd", method="likelihood").turns[0].ask([]).continuations


def test_boxes_and_crops_reach_the_model():
    plain = next(rows("reform_mscoco_goi", 0)).image()
    assert first("reform_mscoco_goi").turns[0].ask([]).messages[0].parts[0].image.data != plain
    plain = next(rows("reform_gqa", 0)).image()
    assert first("reform_gqa").turns[0].ask([]).messages[0].parts[0].image.data == plain


def test_instructions_of_a_file(tmp_path):
    file = tmp_path / "texts.json"
    texts = [f"text {number}" for number in range(5)]
    entry = {"generation": texts, "likelihood": ["bare"], "suffix": {"likelihood": " Say yes."}}
    file.write_text(json.dumps({"format": FORMAT, "datasets": {"gqa": entry}}))
    sample = first("reform_gqa", settings={"instructions": str(file)})
    assert sample.turns[0].ask([]).messages[0].parts[1].text.startswith("text 0 can you see")
    sample = first("reform_gqa", method="likelihood", settings={"instructions": str(file)})
    assert sample.turns[0].ask([]).messages[0].parts[1].text.startswith("bare Say yes. can you see")
    assert wording(DATASETS["reform_medic"], str(file)) == OWN["disaster"]


def test_parts_of_what_a_run_needs():
    assert needs(variant()) == ("IMAGE_INPUT",)
    assert needs(variant("reform_funsd", method="likelihood")) == ("IMAGE_INPUT", "GENERATE")
    assert needs(variant(settings={"temperature": 0.5})) == ("IMAGE_INPUT", "SEED")
    with pytest.raises(ConfigError, match="is not scored so"):
        needs(variant(settings={"formulation": "OCROpenEnded"}))


def test_metrics():
    def names(*arguments, **more):
        return [spec.name for spec in metrics(variant(*arguments, **more))]

    assert names() == ["Accuracy"]
    assert names(parity=True, repeats=5) == ["Accuracy", "Format hit rate", "Instability"]
    assert names("reform_visdial") == ["Accuracy", "Accuracy over rounds"]
    assert "CIDEr (PTB tokens)" in names("reform_mscoco")
    assert "CIDEr (raw text)" in names("reform_mscoco", parity=True)
    assert set(BENCHMARK.tasks) == set(DATASETS)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_the_references_two_sets_of_defaults(preset):
    bare = switches(variant(settings={"preset": preset}), GQA)
    on = preset == "reform-loader"
    assert bare.option_mark == "random"
    assert (bare.in_context, bare.random_instruct, bare.shuffle, bare.capitalize, bare.online) == (on,) * 5
    overridden = switches(variant(settings={"preset": preset, "in_context": "on", "option_mark": "lower"}), GQA)
    assert (overridden.in_context, overridden.option_mark) == (True, "lower")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"preset": "mine"}, "reform-cli"),
        ({"online": "perhaps"}, "on or off"),
        ({"sep": "x"}, "prompt_style"),
        ({"prompt_style": "one", "roles": "User"}, "two names"),
        ({"prompt_style": "one", "first_query": "no slot"}, "one {}"),
    ],
)
def test_mistaken_settings(settings, says):
    with pytest.raises(ValueError, match=says):
        ReformSettings(**settings)


def test_layouts_are_adjustable():
    settings = {
        "prompt_style": "one",
        "roles": "U,A",
        "sep": r"\n\n",
        "system_message": "S",
        "first_query": "<i> {}",
        "response_prefix": "none",
    }
    text = first("reform_gqa", settings=settings).turns[0].ask([]).messages[0].parts[1].text
    assert text.startswith("S\n\nU: <i> Look at the image")
    assert text.endswith(".\n\nA:")
