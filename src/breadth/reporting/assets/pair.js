"use strict";
/* A correlation in the panel: its checkpoints, as measured and after adjustment. */
(() => {
  const { make, number } = breadth;

  const percent = (values) => values.every((value) => value === null || (value >= 0 && value <= 1));

  const axis = (field, title, share) => ({
    field, type: "quantitative", scale: { zero: false },
    axis: { title, tickCount: 4, labelFlush: true, labelOverlap: true, format: share ? ".0%" : ".3~g" },
  });

  /* Checkpoints of the runs behind a mark, with both scores, their residuals, and the control. */
  const checkpoints = async (state) => {
    const joined = new Map();
    for (const row of await breadth.rows("residuals")) {
      if (state.run ? row.run !== state.run : state.model && row.model !== state.model) continue;
      if (state.train_set && row.train_set && row.train_set !== state.train_set) continue;
      if (state.from !== undefined && (row.step < Number(state.from) || row.step > Number(state.to))) continue;
      const side = row.testset === state.a ? "a" : row.testset === state.b ? "b" : null;
      if (!side || row.score === null) continue;
      const key = `${row.train_set} ${row.row}`;
      const entry = joined.get(key) || { run: row.run, model: row.model, step: row.step, control: row.control };
      entry[side] = row.score;
      entry[`${side}_left`] = row.residual;
      entry[`${side}_fit`] = row.residual === null ? null : row.score - row.residual;
      joined.set(key, entry);
    }
    return [...joined.values()].filter((entry) => entry.a !== undefined && entry.b !== undefined);
  };

  const words = (value, low, high) => (value === null || value === undefined ? "not computed" : `${number(value)}${low === null || low === undefined ? "" : ` (${number(low)} to ${number(high)})`}`);

  /* The numbers of this mark: every kind of correlation that the page has. */
  const numbers = async (state) => {
    const rows = (await breadth.rows("correlations")).filter((row) =>
      row.a === state.a && row.b === state.b && (!state.train_set || !row.train_set || row.train_set === state.train_set) &&
      (row.run || undefined) === state.run && (state.run || (row.model || undefined) === state.model));
    const q = (value) => (value === null ? "" : value < 0.001 ? "< 0.001" : number(value, 3));
    return {
      control: rows.map((row) => row.control).find(Boolean) || null,
      lines: rows.map((row) => [rows.some((other) => other.train_set !== row.train_set) ? row.train_set : "", row.kind, words(row.r, row.ci_low, row.ci_high), q(row.q), row.note]),
    };
  };

  const tips = (state) => [{ field: "run" }, { field: "step" }, { field: "a", title: state.a, format: ".3~g" }, { field: "b", title: state.b, format: ".3~g" }, { field: "control", format: ".3~g" }];

  const figureBox = (label) => {
    const box = make("div", null, "small");
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", label);
    return box;
  };

  const dots = (models, many) => ({ mark: { type: "point", filled: true, size: many ? 22 : 40 }, opacity: { field: "step", type: "quantitative", legend: null, scale: { range: [0.25, 0.95] } }, color: breadth.modelColour(models) });

  const scatter = (box, rows, state, [x, y], titles, size) => {
    const models = [...new Set(rows.map((row) => row.model))];
    const look = dots(models, rows.length > 150);
    const share = [percent(rows.map((row) => row.a)), percent(rows.map((row) => row.b))];
    const left = x.endsWith("_left");
    const signed = (field, title, kind) => ({ ...axis(field, title, false), axis: { title, tickCount: 4, format: kind ? "+.0%" : "+.2~g" } });
    const layer = [{ mark: look.mark, encoding: { x: left ? signed(x, titles[0], share[0]) : axis(x, titles[0], share[0]), y: left ? signed(y, titles[1], share[1]) : axis(y, titles[1], share[1]), color: look.color, opacity: look.opacity, tooltip: tips(state) } }];
    return breadth.chart(box, rows, { width: size, height: Math.min(size, 260), autosize: { type: "fit-x", contains: "padding" }, layer });
  };

  /* A score against the control, with the smooth curve that is subtracted. */
  const adjustment = (box, rows, side, name, control, size) => {
    const models = [...new Set(rows.map((row) => row.model))];
    const known = rows.filter((row) => row[`${side}_fit`] !== null && row.control !== null);
    const look = dots(models, rows.length > 60);
    const x = axis("control", control || "control", percent(known.map((row) => row.control)));
    const y = axis(side, name, percent(known.map((row) => row[side])));
    const layer = [
      { mark: { ...look.mark, size: 14 }, encoding: { x, y, color: { ...look.color, legend: null }, opacity: look.opacity } },
      { mark: { type: "line", strokeWidth: 2 }, encoding: { x, y: { ...y, field: `${side}_fit` }, color: { ...look.color, legend: null }, detail: { field: "run" }, order: { field: "control" } } },
    ];
    return breadth.chart(box, known, { width: size, height: 150, autosize: { type: "fit-x", contains: "padding" }, layer });
  };

  breadth.panels.pair = async (state, box) => {
    const { control, lines } = await numbers(state);
    const rows = await checkpoints(state);
    const adjusted = state.adjusted === "1";
    const whose = state.run || (state.model ? `${state.model}, all runs` : "all runs");
    const window = state.from === undefined ? "" : `, steps ${state.from} to ${state.to}`;
    const parts = [make("p", `${whose}${window}`, "count")];
    if (lines.length) parts.push(breadth.grid("Correlation of this pair", ["trained on", "correlation", "r (95% interval)", "q", "note"], lines));
    const items = make("p", null, "trail");
    for (const name of breadth.payload.tables.items ? [state.a, state.b] : []) items.append(breadth.button(`Items of ${name}`, () => breadth.open("items", { testset: name, first: state.model || null, figure: state.figure })));
    if (!rows.length) {
      box.replaceChildren(...parts, make("p", "Not shown: this page carries no checkpoints of this pair.", "absent"), items);
      return `${state.a} and ${state.b}`;
    }
    const choice = make("fieldset");
    choice.append(make("legend", "Show", "unseen"));
    for (const [value, text] of [["", "as measured"], ["1", "after adjustment"]]) {
      const label = make("label");
      const input = Object.assign(make("input"), { type: "radio", name: "adjusted", value, checked: (state.adjusted || "") === value });
      input.addEventListener("change", () => breadth.go({ adjusted: value }, { push: false }));
      label.append(input, make("span", text));
      choice.append(label);
    }
    const main = figureBox(adjusted ? `Residuals of ${state.a} against residuals of ${state.b}; the table below has them.` : `Scores on ${state.a} against scores on ${state.b}; the table below has them.`);
    const focus = box.contains(document.activeElement) && document.activeElement.name === "adjusted";
    const after = adjusted && control && rows.some((row) => row.a_left !== null);
    parts.push(...(control ? [choice] : []), main);
    const small = [];
    if (after) {
      const pair = make("div", null, "two");
      for (const name of [state.a, state.b]) {
        small.push(figureBox(`${name} against ${control || "the control"}, with the curve that is subtracted`));
        pair.append(small[small.length - 1]);
      }
      parts.push(make("p", `Above: what is left of both scores after subtracting the curves below, which predict each from ${control || "the control"}. Their correlation is the partial r.`, "count"), pair);
    } else parts.push(make("p", `One dot per checkpoint; fainter is earlier in training.${state.run || new Set(rows.map((row) => row.run)).size < 2 ? "" : " Correlations are computed within every run and then averaged, so differences between runs do not count."}`, "count"));
    const details = make("details");
    details.append(make("summary", "Numbers"));
    details.append(breadth.grid("Checkpoints", ["run", "step", control || "control", state.a, state.b, "residual", "residual"], rows.map((row) => [row.run, row.step === null ? "" : String(row.step), number(row.control, 3), number(row.a, 3), number(row.b, 3), number(row.a_left, 3), number(row.b_left, 3)])));
    parts.push(details, items);
    box.replaceChildren(...parts);
    if (focus) box.querySelector("input[name=adjusted]:checked").focus();
    setTimeout(() => {
      const width = box.clientWidth - 20;
      const shown = after ? rows.filter((row) => row.a_left !== null && row.b_left !== null) : rows;
      scatter(main, shown, state, after ? ["a_left", "b_left"] : ["a", "b"], [state.a, state.b].map((name) => (after ? `${name}, residual` : name)), width);
      const half = width > 420 ? Math.floor(width / 2) - 12 : width;
      if (after) ["a", "b"].forEach((side, k) => adjustment(small[k], rows, side, state[side], control, half));
    }); /* the words first */
    return `${state.a} and ${state.b}`;
  };

  /* Scores on a test set through training, where single answers are not known. */
  breadth.panels.course = async (state, box) => {
    const rows = (await breadth.rows("trajectories")).filter((row) => row.testset === state.testset && (!state.model || row.model === state.model));
    const measure = rows.length && "score" in rows[0] ? "score" : "accuracy";
    const runs = new Map();
    for (const row of rows) runs.set(row.run, [...(runs.get(row.run) || []), row]);
    const lines = [...runs].map(([run, own]) => {
      const best = own.reduce((one, two) => (two[measure] > one[measure] ? two : one));
      return [run, String(own.length), number(own[0][measure], 3), number(own[own.length - 1][measure], 3), `${number(best[measure], 3)} at step ${best.step}`];
    });
    const plot = figureBox(`Scores on ${state.testset} through training; the table below has them.`);
    box.replaceChildren(make("p", state.model || "all runs", "count"), plot, breadth.grid(`Scores on ${state.testset}`, ["run", "checkpoints", "first", "last", "best"], lines));
    const x = { field: "step", type: "quantitative", scale: { nice: false }, axis: { title: "training step", tickCount: 5, grid: false } };
    const layer = [{ mark: { type: "line", strokeWidth: 1.5 }, encoding: { x, y: axis(measure, measure, percent(rows.map((row) => row[measure]))), color: breadth.modelColour([...new Set(rows.map((row) => row.model))]), detail: { field: "run" } } }];
    setTimeout(() => breadth.chart(plot, rows, { width: box.clientWidth - 20, height: 220, autosize: { type: "fit-x", contains: "padding" }, layer }));
    return state.testset;
  };
})();
