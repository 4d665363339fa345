"use strict";
/* One item in the panel: its text, the prompt as asked, and everybody's answers through training. */
(() => {
  const { make, number } = breadth;
  const MOST_POINTS = 400;
  const MOST_ROWS = 300;

  const term = (list, name, value) => {
    if (value === null || value === undefined || value === "") return;
    list.append(make("dt", name));
    const entry = make("dd");
    entry.append(value);
    list.append(entry);
  };

  const groupBy = (rows, name) => {
    const groups = new Map();
    for (const row of rows) groups.set(row[name], [...(groups.get(row[name]) || []), row]);
    return groups;
  };

  /* Steps at which a run was right, in words: "16 to 64, 96". */
  const spells = (answers) => {
    const parts = [];
    let start = null;
    answers.forEach((answer, k) => {
      if (answer.right >= 0.5 && start === null) start = k;
      const ends = start !== null && (k === answers.length - 1 || !(answers[k + 1].right >= 0.5));
      if (ends && answer.right >= 0.5) { parts.push(start === k ? `${answer.step}` : `${answers[start].step} to ${answer.step}`); start = null; }
    });
    return parts.join(", ");
  };

  /* As in the figures: a hue per model, or none where there are too many. */
  const HUES = 8;
  const hue = (model) => (breadth.payload.models.length > HUES || !breadth.payload.models.includes(model) ? "@muted" : `@model${breadth.payload.models.indexOf(model)}`);
  const colour = (models) => ({
    field: "model", type: "nominal", scale: { domain: models, range: models.map(hue) },
    legend: models.length > 1 && models.length <= HUES ? { orient: "top", title: null, symbolType: "circle", symbolOpacity: 1, symbolSize: 30, symbolStrokeWidth: 4 } : null,
  });
  breadth.modelColour = colour;

  /* Margin against step, a line per run; without margins, filled and hollow dots. */
  const chart = (box, answers, width) => {
    const models = [...new Set(answers.map((answer) => answer.model))];
    const margins = answers.some((answer) => answer.margin !== null);
    const known = answers.filter((answer) => (margins ? answer.margin !== null : answer.right !== null));
    const x = { field: "step", type: "quantitative", scale: { nice: false }, axis: { title: "training step", tickCount: 5, grid: false } };
    const runs = new Set(known.map((answer) => answer.run)).size;
    const y = margins
      ? { field: "margin", type: "quantitative", axis: { title: "log-odds of the gold answer", tickCount: 5 } }
      : { field: "run", type: "nominal", axis: { title: null, ticks: false, labelLimit: 140 } };
    const right = { test: "datum.right >= 0.5", value: "@ink" };
    const tooltip = [{ field: "run" }, { field: "step" }, { field: "said", title: "answer" }, ...(margins ? [{ field: "margin", format: ".1f" }] : [])];
    const layer = [];
    for (const answer of known) answer.said = answer.right >= 0.5 ? "right" : "wrong";
    if (margins) {
      layer.push({ data: { values: [{ zero: 0 }] }, mark: { type: "rule", color: "@muted", strokeDash: [3, 3] }, encoding: { y: { field: "zero", type: "quantitative" } } });
      layer.push({ mark: { type: "line", strokeWidth: runs > 12 ? 1 : 1.6, opacity: runs > 12 ? 0.35 : 0.8 }, encoding: { x, y, color: colour(models), detail: { field: "run" } } });
      if (runs > 2 * models.length) layer.push({ mark: { type: "line", strokeWidth: 3 }, encoding: { x, y: { ...y, aggregate: "mean" }, color: colour(models) } });
    }
    if (!margins || known.length <= MOST_POINTS) {
      const fill = margins ? { condition: { test: "datum.right >= 0.5", ...colour(models) }, value: "@paper" } : { condition: right, value: "@paper" };
      layer.push({ mark: { type: "point", size: 26, opacity: 1, strokeWidth: 1.2 }, encoding: { x, y, tooltip, ...(margins ? { color: colour(models) } : { color: { value: "@ink" } }), fill } });
    }
    return breadth.chart(box, known, { width: width - 20, height: margins ? 200 : { step: 14 }, autosize: { type: "fit-x", contains: "padding" }, layer });
  };

  const answerTable = (answers, said, row) => {
    const steps = answers.some((answer) => answer.step !== answers[0].step);
    const verdict = (right) => (right === null ? "no answer" : right >= 0.5 ? "right" : "wrong");
    if (!steps) {
      const sorted = [...answers].sort((one, two) => (one.right === null ? 2 : one.right) - (two.right === null ? 2 : two.right));
      const lines = sorted.slice(0, MOST_ROWS).map((answer) => [answer.run, verdict(answer.right), ...(said[answer.run] ? [said[answer.run]] : [""]), answer.margin === null ? "" : number(answer.margin, 1)]);
      return breadth.grid(`Answers to ${row.item}`, ["subject", "result", "answer", "margin"], lines);
    }
    const lines = [...groupBy(answers, "run")].slice(0, MOST_ROWS).map(([run, own]) => {
      const [first, last] = [own[0], own[own.length - 1]];
      const known = own.filter((answer) => answer.right !== null);
      const spell = spells(known);
      return [run, verdict(last.right), said[run] || "", spell || "never", first.margin === null ? "" : `${number(first.margin, 1)} to ${number(last.margin, 1)}`];
    });
    return breadth.grid(`Answers to ${row.item} through training`, ["run", "at the end", "answer", "right at steps", "margin, first to last"], lines);
  };

  breadth.panels.item = async (state, box) => {
    const rows = await breadth.items();
    const row = rows.find((entry) => entry.item === state.item && (!state.of || entry.testset === state.of));
    const bar = make("p", null, "trail");
    bar.append(breadth.button("← List of items", () => breadth.go({ panel: "items", item: null, of: null })));
    if (!row) {
      box.replaceChildren(bar, make("p", `There is no item ${state.item} in this page.`, "absent"));
      return "Item";
    }
    const { matching } = await breadth.matchingItems(state);
    const place = matching.findIndex((entry) => entry.index === row.index);
    for (const [words, by] of [["Previous", -1], ["Next", 1]]) {
      const to = place < 0 ? null : matching[place + by];
      const button = breadth.button(words, () => breadth.go({ item: to.item, of: to.testset }));
      button.disabled = !to;
      bar.append(button);
    }
    if (place >= 0) bar.append(make("span", `${(place + 1).toLocaleString("en")} of ${matching.length.toLocaleString("en")}`, "id"));
    const facts = make("dl", null, "facts");
    for (const [name, value] of row.fields) term(facts, name, value);
    if (row.options) {
      const list = make("ul", null, "options");
      row.options.forEach((text, k) => {
        const entry = make("li", `${row.labels ? `${row.labels[k]}. ` : ""}${text}`);
        if (row.labels && row.labels[k] === row.label) entry.append(make("strong", " (gold)"));
        list.append(entry);
      });
      term(facts, "choices", list);
    }
    const asked = (breadth.payload.texts.prompts[row.testset] || {}).answers || {};
    term(facts, "gold", row.label ? `${row.label}${Object.hasOwn(asked, row.label) ? ` (answer “${asked[row.label]}”)` : ""}` : null);
    if (row.doubt) term(facts, "label doubted", row.doubt);
    const more = [row.shift, row.level !== null && row.level !== undefined && `level ${row.level}`, row.difficulty !== null && row.difficulty !== undefined && `difficulty ${number(row.difficulty, 1)} ± ${number(1.96 * row.difficulty_se, 1)}`].filter(Boolean);
    term(facts, "test set", [row.testset, ...more].join(" · "));
    const prompt = breadth.prompt(row);
    const parts = [bar, facts];
    if (prompt) {
      const text = make("pre", prompt);
      text.tabIndex = 0;
      text.setAttribute("role", "region");
      text.setAttribute("aria-label", "Prompt as asked");
      parts.push(make("h3", "Prompt as asked"), text);
      if (breadth.payload.texts.examples) parts.push(make("p", `Few-shot runs put ${breadth.payload.texts.examples} examples before it.`, "count"));
    }
    parts.push(make("h3", "Answers"));
    box.replaceChildren(...parts);
    if (!breadth.hasAnswers()) {
      const reason = (breadth.payload.answers || {}).reason;
      box.append(make("p", `Not shown: ${reason || "this page carries no single answers"}.`, "absent"));
      return `Item ${row.item}`;
    }
    const [answers, said] = await Promise.all([breadth.answersTo(row.index), breadth.said(row.index)]);
    const ends = [...groupBy(answers, "run").values()].map((own) => own[own.length - 1]).filter((answer) => answer.right !== null);
    const many = ends.filter((answer) => answer.right >= 0.5).length;
    const [carried, all] = breadth.payload.answers.checkpoints;
    const thinned = carried < all ? ` The page carries ${carried.toLocaleString("en")} of ${all.toLocaleString("en")} checkpoints, evenly spaced.` : "";
    box.append(make("p", `${many} of ${ends.length} ${breadth.payload.unit} ${breadth.payload.unit === "runs" ? "end right" : "are right"}.${thinned}`, "count"));
    const plot = make("div", null, "small");
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", "Answers through training; the table below has them in words.");
    const trained = answers.some((answer) => answer.step !== answers[0].step);
    const thick = new Set(answers.map((answer) => answer.run)).size > 2 * new Set(answers.map((answer) => answer.model)).size;
    if (trained) box.append(plot, make("p", `Thin: a run${thick ? "; thick: the mean of a model's runs" : ""}. Above 0 the gold answer is the likelier one.`, "count"));
    box.append(answerTable(answers, said, row));
    if (trained) setTimeout(() => chart(plot, answers, box.clientWidth)); /* the words first */
    return `Item ${row.item}`;
  };
})();
