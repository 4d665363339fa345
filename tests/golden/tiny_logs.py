"""Tiny logs of every tool, in the forms that its versions write. Each function fills a directory."""

import hashlib
import json
import math

import numpy as np
import polars as pl

#: Whether each of six questions is answered right, by model.
ANSWERS = {"org/one": [1, 0, 1, 1, 0, 1], "org/two": [0, 0, 1, 1, 1, 1]}


def dump(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))


def dump_lines(path, rows):
    dump(path, "".join(json.dumps(row) + "\n" for row in rows))


def write_lm_eval(folder, steps=(None,), task="apples", shots=0):
    """lm-evaluation-harness 0.4.9: samples of two options, with results beside them."""
    for model, answers in ANSWERS.items():
        for number, step in enumerate(steps):
            right = answers[number:] + answers[:number]
            revision = "" if step is None else f"step{step}"
            own = folder / "__".join(filter(None, (model.replace("/", "__"), revision)))
            stamp = f"2026-01-0{number + 1}T00-00-00.000000"
            dump_lines(own / f"samples_{task}_{stamp}.jsonl", [choice_sample(task, k, x) for k, x in enumerate(right)])
            dump(own / f"results_{stamp}.json", harness_results(model, revision, {task: right}, shots))


def choice_sample(task, number, right):
    question = f"Question {number} of {task}"
    likely, unlikely = [str(-1.0 - number / 10), "False"], ["-2.5", "False"]
    responses = [likely, unlikely] if right else [unlikely, likely]
    return {
        "doc_id": number,
        "doc": {"question": question, "choices": ["a", "bb"], "gold": 0},
        "target": "0",
        "arguments": {
            f"gen_args_{k}": {"arg_0": f"{question}\nAnswer:", "arg_1": f" {option}"}
            for k, option in enumerate(("a", "bb"))
        },
        "resps": [[one] for one in responses],
        "filtered_resps": responses,
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": hashlib.sha256(question.encode()).hexdigest(),
        "prompt_hash": "0",
        "target_hash": "0",
        "acc": float(right),
        "acc_norm": float(number % 2),
    }


def harness_results(model, revision, tasks, shots):
    arguments = f"pretrained={model}" + (f",revision={revision}" if revision else "")
    return {
        "results": {task: {"acc,none": float(np.mean(right)), "acc_norm,none": 0.5} for task, right in tasks.items()},
        "configs": {task: {"task": task, "num_fewshot": shots} for task in tasks},
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, shots),
        "config": {"model": "hf", "model_args": arguments},
        "lm_eval_version": "0.4.9",
        "model_name": model,
    }


def write_lm_eval_steps(folder):
    """The same at three training steps, told by the revision."""
    write_lm_eval(folder, steps=(1000, 2000, 3000))


def write_lm_eval_generated(folder):
    """Answers in free text under two filters, each with a score of its own."""
    for model, answers in ANSWERS.items():
        rows = []
        for number, right in enumerate(answers):
            for name, score in (("strict-match", right and number % 2), ("flexible-extract", right)):
                rows.append(generated_sample(number, name, float(score)))
        own = folder / model.replace("/", "__")
        stamp = "2026-01-01T00-00-00.000000"
        dump_lines(own / f"samples_sums_{stamp}.jsonl", rows)
        results = harness_results(model, "", {"sums": answers}, 5)
        strict = [right and k % 2 for k, right in enumerate(answers)]
        shares = {"strict-match": float(np.mean(strict)), "flexible-extract": float(np.mean(answers))}
        results["results"]["sums"] = {f"exact_match,{name}": share for name, share in shares.items()}
        dump(own / f"results_{stamp}.json", results)


def generated_sample(number, name, score):
    question = f"What is {number} + {number}?"
    given = str(2 * number) if score else "unsure"
    return {
        "doc_id": number,
        "doc": {"question": question, "answer": f"#### {2 * number}"},
        "target": str(2 * number),
        "arguments": {"gen_args_0": {"arg_0": question, "arg_1": {"until": ["\n"], "do_sample": False}}},
        "resps": [[f"It is {given}"]],
        "filtered_resps": [given],
        "filter": name,
        "metrics": ["exact_match"],
        "doc_hash": hashlib.sha256(question.encode()).hexdigest(),
        "prompt_hash": "0",
        "target_hash": "0",
        "exact_match": score,
    }


def write_inspect(folder):
    """Inspect's JSON, with letters as scores, two scorers and two epochs."""
    for model, answers in ANSWERS.items():
        samples = []
        for epoch in (1, 2):
            for number, right in enumerate(answers):
                kept = right if epoch == 1 else int(number % 3 == 0)
                samples.append(inspect_sample(number, epoch, kept))
        shares = [sample["scores"]["match"]["value"] == "C" for sample in samples]
        log = {
            "version": 2,
            "status": "success",
            "eval": {
                "task": "plums", "task_version": 0, "model": model, "created": "2026-01-01T00:00:00+00:00",
                "run_id": f"run-{model}", "task_id": f"task-{model}", "dataset": {"name": "plums", "samples": 6},
                "config": {"epochs": 2}, "task_args": {}, "model_args": {}, "packages": {"inspect_ai": "0.3.100"},
            },
            "results": {
                "total_samples": 12,
                "completed_samples": 12,
                "scores": [
                    {"name": "match", "scorer": "match", "params": {}, "metrics": {
                        "accuracy": {"name": "accuracy", "value": float(np.mean(shares)), "params": {}}}}
                ],
            },
            "samples": samples,
        }  # fmt: skip
        dump(folder / f"2026-01-01T00-00-00+00-00_plums_{model.replace('/', '-')}.json", log)


def inspect_sample(number, epoch, right):
    return {
        "id": number + 1,
        "epoch": epoch,
        "input": f"Question {number}?",
        "choices": ["a", "b"],
        "target": "A",
        "messages": [],
        "output": {"model": "m", "choices": []},
        "scores": {
            "match": {"value": "C" if right else "I", "answer": "A" if right else "B"},
            "judge": {"value": 0.25 * number if number < 5 else 1.0, "answer": "A"},
        },
    }


def write_helm(folder):
    """HELM: two runs with answers, texts and stated means; some instances are perturbed."""
    for model, answers in ANSWERS.items():
        run = folder / f"gsm:model={model.replace('/', '_')}"
        adapter = {"method": "generation", "model": model, "max_train_instances": 5}
        rows, requests = [], []
        for number, right in enumerate(answers):
            rows.append(helm_row(f"id{number}", right))
            requests.append(helm_request(f"id{number}", right))
        rows.append({**helm_row("id0", 0), "perturbation": {"name": "typos"}})
        dump(run / "run_spec.json", {"name": run.name, "scenario_spec": {}, "adapter_spec": adapter, "groups": []})
        dump(run / "per_instance_stats.json", rows)
        dump(run / "scenario_state.json", {"adapter_spec": adapter, "request_states": requests})
        dump(run / "stats.json", [helm_stat("exact_match", float(np.mean(answers)))])


def helm_stat(name, mean):
    return {"name": {"name": name, "split": "test"}, "count": 1, "sum": mean, "sum_squared": mean, "mean": mean}


def helm_row(item, right):
    stats = [helm_stat("exact_match", float(right)), helm_stat("num_bytes", 7.0)]
    return {"instance_id": item, "train_trial_index": 0, "stats": stats}


def helm_request(item, right):
    references = [{"output": {"text": "x"}, "tags": ["correct"]}, {"output": {"text": "y"}, "tags": []}]
    return {
        "instance": {"id": item, "split": "test", "input": {"text": f"Q {item}"}, "references": references},
        "train_trial_index": 0,
        "result": {"success": True, "completions": [{"text": "x" if right else "y", "tokens": []}]},
    }


def write_lighteval(folder):
    """Lighteval, the newer and the older layout of details."""
    stamp = "2026-01-01T00-00-00.000000"
    for (model, answers), old in zip(ANSWERS.items(), (False, True), strict=True):
        rows = []
        for number, right in enumerate(answers):
            logprobs = [-1.0, -3.0] if right else [-3.0, -1.0]
            rows.append(lighteval_row(f"Question {number}", logprobs, float(right), old))
        own = folder / "details" / model / stamp
        own.mkdir(parents=True)
        pl.DataFrame(rows).write_parquet(own / f"details_leaderboard|arc:challenge|25_{stamp}.parquet")
        results = {"leaderboard|arc:challenge|25": {"acc": float(np.mean(answers))}}
        general = {"model_name": model, "lighteval_sha": "0"}
        path = folder / "results" / model / f"results_{stamp}.json"
        dump(path, {"config_general": general, "results": results})


def lighteval_row(query, logprobs, score, old):
    if old:
        return {
            "example": query, "full_prompt": f"examples {query}", "choices": [" x", " yy"], "gold_index": [0],
            "gold": ["x"], "predictions": logprobs, "pred_logits": [0.0], "metrics": {"acc": score},
        }  # fmt: skip
    return {
        "doc": {"query": query, "choices": [" x", " yy"], "gold_index": 0, "task_name": "arc:challenge|25"},
        "model_response": {"text": ["x"], "logprobs": logprobs, "input_tokens": [1, 2]},
        "metric": {"acc": score, "acc_norm": 0.0},
    }


def write_evalplus(folder):
    """EvalPlus in both versions, and BigCodeBench."""
    for model, answers in ANSWERS.items():
        tasks = {}
        for number, right in enumerate(answers):
            plus = "pass" if right and number else "fail"
            sample = {"task_id": "x", "solution": "...", "base_status": "pass" if right else "fail"}
            tasks[f"HumanEval/{number}"] = [{**sample, "plus_status": plus}]
        stated = {"base": {"pass@1": float(np.mean(answers))}, "plus": {"pass@1": float(np.mean(answers[1:]))}}
        name = model.replace("/", "--")
        dump(
            folder / f"{name}_temp_0.0_eval_results.json",
            {"date": "2026-01-01 10:00", "hash": "abc", "eval": tasks, "pass_at_k": stated},
        )
        old = {}
        for number, right in enumerate(answers):
            word = "success" if right else "failed"
            old[f"Mbpp/{number + 2}"] = {"nfiles": 1, "base": [[word, []]], "plus": [[word, [True]]]}
        dump(folder / "mbpp" / name / "eval_results.json", {"date": "2024-01-01 10:00", "hash": "abc", "eval": old})
        status = {f"BigCodeBench/{k}": [{"status": "pass" if right else "timeout"}] for k, right in enumerate(answers)}
        stem = f"{name}--bigcodebench-hard-instruct--vllm-0-1-sanitized_calibrated"
        dump(folder / "big" / f"{stem}_eval_results.json", {"date": "2026-01-01 10:00", "eval": status})
        dump(folder / "big" / f"{stem}_pass_at_k.json", {"pass@1": float(np.mean(answers)), "model": model})


def write_swe_bench(folder):
    """SWE-bench: reports of the harness, lists of the experiments' repository, and outcomes of SWE-bench Pro."""
    for model, answers in ANSWERS.items():
        names = [f"owner__repo-{number}" for number in range(len(answers))]
        resolved = [name for name, right in zip(names, answers, strict=True) if right]
        unresolved = [name for name in names if name not in resolved]
        report = {
            "total_instances": 6, "submitted_instances": 6, "completed_instances": 6,
            "resolved_instances": len(resolved), "unresolved_instances": len(unresolved), "empty_patch_instances": 0,
            "error_instances": 0, "completed_ids": names, "incomplete_ids": [], "empty_patch_ids": [],
            "submitted_ids": names, "resolved_ids": resolved, "unresolved_ids": unresolved, "error_ids": [],
            "schema_version": 2,
        }  # fmt: skip
        own = model.replace("/", "__")
        dump(folder / "reports" / f"{own}.run-1.json", report)
        lists = {"resolved": resolved, "no_generation": [], "no_logs": [], "generated": names, "applied": names}
        dump(folder / "evaluation" / "lite" / f"20260101_{own}" / "results" / "results.json", lists)
        dump(folder / "pro" / own / "eval_results.json", dict(zip(names, map(bool, answers), strict=True)))


def write_olmes(folder):
    """OLMES: predictions, metrics and requests of a task."""
    for number, (model, answers) in enumerate(ANSWERS.items()):
        own = folder / model.replace("/", "__")
        stem = f"task-000-arc_easy:rc-{number}"
        rows = [olmes_row(k, right) for k, right in enumerate(answers)]
        dump_lines(own / f"{stem}-predictions.jsonl", rows)
        metrics = {
            "task_name": "arc_easy:rc", "num_instances": len(rows), "current_date": "2026-01-02 03:04:05 UTC",
            "task_config": {
                "primary_metric": "acc_per_char", "num_shots": 5, "metadata": {"alias": "arc_easy:rc::olmes"},
            },
            "model_config": {"model": model, "revision": f"stage1-step{1000 * (number + 1)}-tokens3B"},
            "metrics": {"acc_raw": float(np.mean(answers)), "acc_per_char": float(np.mean(answers))},
        }  # fmt: skip
        dump(own / f"{stem}-metrics.json", metrics)
        requests = []
        for row in rows:
            for option in range(2):
                doc = {"query": f"Q{row['doc_id']}", "choices": ["x", "y"]}
                requests.append({
                    "request_type": "loglikelihood", "doc": doc, "request": {"context": "examples"}, "idx": option,
                    "doc_id": row["doc_id"], "native_id": row["native_id"],
                })  # fmt: skip
        dump_lines(own / f"{stem}-requests.jsonl", requests)


def olmes_output(total):
    return {
        "sum_logits": total, "num_tokens": 2, "num_chars": 4, "is_greedy": False, "logits_per_token": total / 2,
        "bits_per_byte": -total / 4 / math.log(2),
    }  # fmt: skip


def olmes_row(number, right):
    best = 0 if right else 1
    outputs = [olmes_output(-1.0 if k == best else -3.0) for k in range(2)]
    return {
        "doc_id": number,
        "native_id": f"Mercury_{number}",
        "metrics": {
            "predicted_index_raw": best, "correct_choice": 0, "acc_raw": int(right), "acc_per_char": int(right),
            "acc_uncond": None, "no_answer": 0, "sum_logits_corr": outputs[0]["sum_logits"],
        },
        "model_output": outputs, "label": 0, "task_hash": "t", "model_hash": "m",
    }  # fmt: skip


def write_olmo_eval(folder):
    """olmo-eval, which came after OLMES."""
    for model, answers in ANSWERS.items():
        own = folder / model.replace("/", "_")
        rows = []
        for number, right in enumerate(answers):
            outputs = [{**olmes_output(-1.0 if k == 1 - right else -2.0), "text": "t"} for k in range(2)]
            metrics = {"accuracy": {"logprob": float(right)}, "bpb": {"bpb": 0.7}}
            rows.append({
                "doc_id": number, "native_id": number, "model_output": outputs, "instance_metrics": metrics, "label": 0,
            })  # fmt: skip
        dump_lines(own / "predictions" / "model" / "arc_challenge_mc_abcdef-predictions.jsonl", rows)
        task = {
            "task": "arc_challenge:mc", "task_hash": "0123456789abcdef", "num_instances": len(rows),
            "primary_metric": "accuracy:logprob", "config": {"num_fewshot": 5},
            "metrics": {"accuracy": {"logprob": float(np.mean(answers))}, "bpb": {"logprob": 0.8}},
        }  # fmt: skip
        config = {"name": "default", "provider": {"model": model, "revision": "step20", "dtype": "auto"}}
        about = {"timestamp": "2026-02-03T04:05:06", "config": config, "tasks": [task], "summary": {}}
        dump(own / "metrics.json", about)


def write_opencompass(folder):
    """OpenCompass: details by position, with predictions beside them."""
    run = folder / "20260102_030405"
    for model, answers in ANSWERS.items():
        details = {"type": "GEN"}
        predictions = {}
        for number, right in enumerate(answers):
            given = "B" if right else "A"
            details[str(number)] = {
                "prompt": f"Q {number}",
                "predictions": given,
                "references": "B",
                "correct": bool(right),
            }
            predictions[str(number)] = {"origin_prompt": f"Q {number}", "prediction": given, "gold": "B"}
        name = model.replace("/", "-")
        share = 100 * float(np.mean(answers))
        dump(run / "results" / name / "ARC-c.json", {"accuracy": share, "details": details, "type": "GEN"})
        dump(run / "predictions" / name / "ARC-c.json", predictions)


def write_eee(folder):
    """every_eval_ever: a file of samples beside the file that describes them."""
    for number, (model, answers) in enumerate(ANSWERS.items()):
        name = f"0b4d9a44-0000-4000-8000-00000000000{number}"
        dump_lines(folder / f"{name}_samples.jsonl", [eee_sample(model, k, right) for k, right in enumerate(answers)])
        result = {
            "evaluation_result_id": "bench.acc", "evaluation_name": "bench",
            "source_data": {"dataset_name": "bench", "source_type": "other"},
            "metric_config": {"metric_name": "accuracy", "lower_is_better": False, "score_type": "binary"},
            "score_details": {"score": float(np.mean(answers))},
            "generation_config": {"generation_args": {"temperature": 0.0}, "additional_details": {"num_fewshot": "5"}},
        }  # fmt: skip
        about = {
            "schema_version": "0.3.0", "evaluation_id": f"e/{model}", "retrieved_timestamp": "1750000001",
            "model_info": {"name": model, "id": model, "additional_details": {"revision": f"step{100 + number}"}},
            "evaluation_results": [result],
        }  # fmt: skip
        dump(folder / f"{name}.json", about)


def eee_sample(model, number, right):
    given = "B" if right else "A"
    attribution = {
        "turn_idx": 0, "source": "output.raw", "extracted_value": given, "extraction_method": "regex",
        "is_terminal": True,
    }  # fmt: skip
    return {
        "schema_version": "0.3.0", "evaluation_id": f"e/{model}", "model_id": model, "evaluation_name": "bench",
        "evaluation_result_id": "bench.acc", "sample_id": f"q{number}", "interaction_type": "single_turn",
        "input": {"raw": f"What is {number}?", "reference": ["B"], "choices": ["one", "two"]},
        "output": {"raw": [f"It is {given}."]}, "answer_attribution": [attribution],
        "evaluation": {"score": float(right), "is_correct": bool(right)},
    }  # fmt: skip


def write_alpaca_eval(folder):
    """AlpacaEval: preferences of a judge, one of which failed."""
    for model, answers in ANSWERS.items():
        rows = []
        for number, right in enumerate(answers):
            rows.append({
                "instruction": f"q{number}", "output_1": "x", "generator_1": "base", "output_2": "y",
                "generator_2": model, "annotator": "judge", "preference": None if number == 5 else 1.25 + 0.5 * right,
            })  # fmt: skip
        dump(folder / model.replace("/", "-") / "annotations.json", rows)


def write_openai_evals(folder):
    """OpenAI evals: events, after a line that describes the run."""
    for model, answers in ANSWERS.items():
        spec = {"completion_fns": [model], "eval_name": "task.dev.v0", "run_id": "r", "created_at": "2026-01-01"}
        lines = [{"spec": spec}]
        for number, right in enumerate(answers):
            data = {"correct": bool(right), "expected": "B", "picked": "B" if right else "A"}
            lines.append({
                "run_id": "r", "event_id": number, "sample_id": f"task.dev.{number}", "type": "match", "data": data,
            })  # fmt: skip
        lines.append({"final_report": {"accuracy": float(np.mean(answers))}})
        dump_lines(folder / f"{model.replace('/', '-')}.jsonl", lines)


def long_answers():
    """A long table of the answers, with margins and labels."""
    rows = []
    for model, answers in ANSWERS.items():
        for number, right in enumerate(answers):
            rows.append({
                "model": model, "testset": "pears" if number % 2 else "apples", "item": f"q{number}", "correct": right,
                "margin": (1.5 if right else -0.5) + number / 8, "answer": "Yes" if right else "No", "label": "Yes",
            })  # fmt: skip
    return pl.DataFrame(rows)


def write_matrix(folder):
    """The answers as a long table of four kinds, as a wide table and as NPZ, each a test set of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    frame = long_answers().drop("testset")
    frame.write_csv(folder / "commas.csv")
    frame.write_csv(folder / "tabs.tsv", separator="\t")
    frame.write_ndjson(folder / "lines.jsonl")
    frame.write_parquet(folder / "columns.parquet")
    wide = pl.DataFrame({"model": list(ANSWERS), **{f"w{k}": [row[k] for row in ANSWERS.values()] for k in range(6)}})
    wide.write_csv(folder / "wide.csv")
    matrix = np.array(list(ANSWERS.values()), np.int8)
    np.savez(folder / "arrays.npz", R=matrix, models=list(ANSWERS), items=[f"n{k}" for k in range(6)])


WRITERS = {
    "lm_eval": write_lm_eval,
    "lm_eval_steps": write_lm_eval_steps,
    "lm_eval_generated": write_lm_eval_generated,
    "inspect": write_inspect,
    "helm": write_helm,
    "lighteval": write_lighteval,
    "evalplus": write_evalplus,
    "swe_bench": write_swe_bench,
    "olmes": write_olmes,
    "olmo_eval": write_olmo_eval,
    "opencompass": write_opencompass,
    "eee": write_eee,
    "alpaca_eval": write_alpaca_eval,
    "openai_evals": write_openai_evals,
    "matrix": write_matrix,
}


#: Runs and test sets of checkpoints.
RUNS, SETS = ("alpha", "beta"), ("mnli", "hans", "snli")


def score_at(run, testset, step):
    """A score that rises and wobbles, otherwise on every test set and in every run."""
    place = RUNS.index(run) + 2 * SETS.index(testset)
    return round(0.4 + step / 200 + 0.03 * math.sin(place + step * (1 + place / 7)), 4)


def write_trainer_states(folder):
    """Two runs of a Trainer; the first was restarted, so its last step is there twice."""
    for run in RUNS:
        history = []
        for step in range(10, 90, 10):
            history.append({"step": step, "epoch": step / 10, "loss": 2.0 - step / 80, "grad_norm": 0.5})
            for testset in SETS:
                score = score_at(run, testset, step)
                history.append({
                    "step": step, "epoch": step / 10, f"eval_{testset}_accuracy": score,
                    f"eval_{testset}_loss": 1.2 - score, f"eval_{testset}_runtime": 2.0,
                    f"eval_{testset}_samples_per_second": 50.0,
                })  # fmt: skip
        if run == "alpha":
            history.append({"step": 80, "epoch": 8.0, "eval_mnli_accuracy": 0.95})
        checkpoint = folder / run / "checkpoint-80"
        dump(checkpoint / "trainer_state.json", {"global_step": 80, "log_history": history})
        dump(checkpoint / "adapter_config.json", {"base_model_name_or_path": "org/base"})


def write_mlruns(folder):
    """MLflow's directories: two runs of an experiment, with a file per metric."""
    for number, run in enumerate(RUNS):
        own = folder / "mlruns" / "7" / f"{number}123456789abcdef"
        dump(own / "meta.yaml", f"lifecycle_stage: active\nrun_name: '{run}'\n")
        dump(own / "params" / "model", "org/m")
        for testset in SETS:
            lines = [f"17948156366{step} {score_at(run, testset, step)} {step}\n" for step in range(10, 90, 10)]
            dump(own / "metrics" / "eval" / testset / "accuracy", "".join(lines))
    dump(folder / "mlruns" / "7" / "meta.yaml", "name: tuning\n")


def write_wandb(folder):
    """Charts of W&B as CSV, a file per test set."""
    for testset in SETS:
        names = [f"{run} - eval/{testset}/accuracy" for run in RUNS]
        rows = [[step, *(score_at(run, testset, step) for run in RUNS)] for step in range(10, 90, 10)]
        frame = pl.DataFrame(rows, schema=["Step", *names], orient="row")
        folder.mkdir(exist_ok=True)
        frame.write_csv(folder / f"wandb_export_{testset}.csv", quote_style="always")


TRACKERS = {"trainer_states": write_trainer_states, "mlruns": write_mlruns, "wandb": write_wandb}
