"use strict";
/* The list of items in the panel: filters that compose, two models side by side. Texts only ever become text nodes. */
(() => {
  const PAGE = 50;
  const { make, number } = breadth;

  const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)}%`);
  const listed = (value) => (value === undefined ? [] : [].concat(value));
  const distinct = (rows, name) => [...new Set(rows.map((row) => row[name]).filter((value) => value !== null && value !== undefined))];

  /* "run:NAME" is a run, anything else a model. */
  const rightBy = async (who, rows) => {
    if (!who) return null;
    const run = who.startsWith("run:") ? who.slice(4) : null;
    if (breadth.hasAnswers()) return breadth.rightBy(who, run);
    return run || !rows.length || !(`right_${who}` in rows[0]) ? null : rows.map((row) => row[`right_${who}`]);
  };
  const nameOf = (who) => who.replace(/^run:/, "");

  const option = (select, value, text) => {
    const entry = make("option", text === undefined ? value : text);
    entry.value = value;
    select.append(entry);
  };

  const people = async (select, blank) => {
    option(select, "", blank);
    const runs = await breadth.runs();
    const models = runs.length ? distinct(runs, "model") : breadth.payload.models;
    for (const model of models) option(select, model);
    if (runs.length > models.length) {
      const group = make("optgroup");
      group.label = "single runs";
      for (const run of runs) option(group, `run:${run.run}`, run.run);
      select.append(group);
    }
  };

  const field = (label, control, name) => {
    const box = make("label", null, name);
    box.append(make("span", label), control);
    return box;
  };

  const control = (tag, name, attributes = {}) => Object.assign(document.createElement(tag), { name, ...attributes });

  const build = async (box, rows) => {
    const form = make("form");
    form.id = "filters";
    form.setAttribute("aria-label", "Filter questions");
    const select = (label, name, values) => {
      const node = control("select", name);
      option(node, "", "all");
      for (const value of values) option(node, String(value));
      if (values.length) form.append(field(label, node));
    };
    select("Test set", "testset", breadth.payload.testsets);
    const levels = distinct(rows, "level").sort((one, two) => one - two);
    select("Level", "level", levels);
    select("Label", "label", distinct(rows, "label").sort().slice(0, 100));
    const failed = control("select", "failed");
    await people(failed, "any or none");
    option(failed, "*", "every model");
    form.append(field("Failed by", failed));
    if (rows.length && "difficulty" in rows[0]) {
      for (const [name, label] of [["low", "Difficulty from"], ["high", "to"]]) form.append(field(label, control("input", name, { type: "number", step: "any", className: "short" })));
    }
    form.append(field("Text", control("input", "text", { type: "search", placeholder: "words in the question", autocomplete: "off" }), "grow"));
    if (rows.some((row) => row.doubt)) {
      const check = make("label", null, "check");
      check.append(control("input", "doubt", { type: "checkbox", value: "1" }), make("span", "label doubted"));
      form.append(check);
    }
    const pair = make("fieldset", null, "pair");
    pair.append(make("legend", "Compare"));
    for (const [name, label] of [["one", "Compare"], ["two", "with"]]) {
      const node = control("select", name);
      node.setAttribute("aria-label", name === "one" ? "Compare this model or run" : "with this model or run");
      await people(node, name === "one" ? "a model or run" : "another");
      pair.append(...(name === "two" ? [make("span", label)] : []), node);
    }
    form.append(pair, breadth.button("Clear", () => breadth.go(Object.fromEntries(["testset", "level", "label", "failed", "low", "high", "text", "doubt", "one", "two", "cell", "first", "run", "step", "page", "sort", "down"].map((name) => [name, null])), { push: false })));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => {
      const { name, type, checked, value } = event.target;
      breadth.go({ [name]: type === "checkbox" ? (checked ? "1" : null) : value, page: null, ...(["one", "two"].includes(name) ? { cell: null } : {}) }, { push: false });
    });
    const order = control("select", "order");
    option(order, "", "as listed");
    for (const key of sortable(rows)) {
      option(order, key, SORTS[key][0]);
      option(order, `${key} down`, SORTS[key][1]);
    }
    const sort = field("Sort", order);
    sort.addEventListener("input", (event) => {
      event.stopPropagation(); /* it is no filter */
      const [key, down] = order.value.split(" ");
      breadth.go({ sort: key, down: down ? "1" : null, page: null }, { push: false });
    });
    form.append(sort);
    const chips = make("p", null, "chips");
    chips.id = "chips";
    const cells = make("div");
    cells.id = "cells";
    const count = make("p", null, "count");
    count.id = "count";
    count.setAttribute("aria-live", "polite");
    const list = make("div");
    list.id = "item-list";
    box.replaceChildren(form, chips, cells, count, list);
  };

  const sync = (state) => {
    for (const input of document.getElementById("filters").elements) {
      if (!input.name) continue;
      if (input.name === "order") { input.value = state.sort ? `${state.sort}${state.down ? " down" : ""}` : ""; continue; }
      const value = listed(state[input.name]);
      if (input.type === "checkbox") input.checked = value.length > 0;
      else if (document.activeElement !== input || input.tagName === "SELECT" || !value.length) input.value = value.length === 1 ? value[0] : "";
    }
  };

  const filtered = async (state, rows) => {
    const sets = new Set(listed(state.testset));
    const words = (state.text || "").toLowerCase().split(/\s+/).filter(Boolean);
    const low = state.low === undefined ? -Infinity : Number(state.low);
    const high = state.high === undefined ? Infinity : Number(state.high);
    const ranged = state.low !== undefined || state.high !== undefined;
    const wrong = (value) => value !== null && value !== undefined && value < 0.5;
    const failed = state.failed && state.failed !== "*" ? await rightBy(state.failed, rows) : null;
    const models = breadth.payload.models;
    return rows.filter((row) =>
      (!sets.size || sets.has(row.testset)) &&
      (state.level === undefined || String(row.level) === state.level) &&
      (state.label === undefined || row.label === state.label) &&
      (!state.failed || (failed ? wrong(failed[row.index]) : models.every((model) => wrong(row[`right_${model}`])))) &&
      (!state.doubt || row.doubt) &&
      (!ranged || (row.difficulty !== null && row.difficulty >= low && row.difficulty <= high)) &&
      words.every((word) => row.search.includes(word)));
  };

  /* Items by who gets them right: "right-wrong" is right by the first and wrong by the second. */
  const compared = async (state, rows, all) => {
    const [one, two] = [await rightBy(state.one, all), await rightBy(state.two, all)];
    if (!one || !two) return null;
    const groups = { "right-right": [], "right-wrong": [], "wrong-right": [], "wrong-wrong": [] };
    const word = (value) => (value >= 0.5 ? "right" : "wrong");
    for (const row of rows) if (one[row.index] !== null && two[row.index] !== null) groups[`${word(one[row.index])}-${word(two[row.index])}`].push(row);
    return groups;
  };

  const showCells = (state, groups, box) => {
    if (!groups) { box.replaceChildren(); return; }
    const [one, two] = [nameOf(state.one), nameOf(state.two)];
    const cell = (name) => {
      const number = groups[name].length;
      const button = breadth.button(number.toLocaleString("en"), () => breadth.go({ cell: state.cell === name ? null : name, page: null }, { push: false }));
      const [first, second] = name.split("-");
      button.setAttribute("aria-label", `${number} questions: ${one} ${first}, ${two} ${second}`);
      button.setAttribute("aria-pressed", String(state.cell === name));
      return button;
    };
    const focused = [...box.querySelectorAll("button")].indexOf(document.activeElement);
    const table = breadth.grid("Questions by who gets them right", ["", `${two} right`, `${two} wrong`], [
      [`${one} right`, cell("right-right"), cell("right-wrong")],
      [`${one} wrong`, cell("wrong-right"), cell("wrong-wrong")],
    ]);
    table.classList.add("cells");
    box.replaceChildren(table);
    if (focused >= 0) box.querySelectorAll("button")[focused].focus();
  };

  /* What items are sorted by: the words for rising and falling. */
  const SORTS = {
    difficulty: ["easiest first", "hardest first"],
    right: ["most failures first", "fewest failures first"],
    doubt: ["doubted labels first", "doubted labels last"],
    item: ["by name", "by name, backwards"],
  };
  const sortable = (rows) => Object.keys(SORTS).filter((key) => rows.some((row) => row[key] !== null && row[key] !== undefined));

  const order = async (state, rows, all) => {
    const sorted = [...rows];
    const by = (value, sign) => sorted.sort((one, two) => {
      const [a, b] = [value(one), value(two)];
      if (a === b) return 0;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      return a < b ? -sign : sign;
    });
    if (state.sort === "doubt") return by((row) => (row.doubt ? 0 : 1), state.down ? -1 : 1);
    if (Object.hasOwn(SORTS, state.sort || "")) return by((row) => row[state.sort], state.down ? -1 : 1);
    const at = state.step !== undefined && breadth.hasAnswers() ? await breadth.rightBy(null, state.run, state.step) : null;
    const first = at || (await rightBy(state.first, all));
    return first ? by((row) => first[row.index], 1) : sorted;
  };

  const entry = (row, people) => {
    const line = make("li");
    const open = breadth.button(null, () => breadth.go({ panel: "item", item: row.item, of: row.testset }), "item");
    open.dataset.item = row.item;
    open.append(make("span", row.text || row.item, "words"));
    const facts = [row.testset, row.label && `label ${row.label}`, row.level !== null && row.level !== undefined && `level ${row.level}`, row.difficulty !== null && row.difficulty !== undefined && `difficulty ${number(row.difficulty, 1)}`, row.text && row.item].filter(Boolean);
    open.append(make("span", facts.join(" · "), "id"));
    if (row.doubt) open.append(make("span", `Label doubted: ${row.doubt}`, "doubt"));
    const shares = make("span", null, "shares");
    for (const [name, right] of people) shares.append(make("span", `${name} ${percent(right[row.index])}`));
    open.append(shares);
    line.append(open);
    return line;
  };

  /* Whose answers a line shows: those compared, the chosen checkpoint, or the models while they are few. */
  const shownPeople = async (state, rows) => {
    const people = [];
    if (state.step !== undefined && breadth.hasAnswers()) {
      const at = await breadth.rightBy(null, state.run, state.step);
      if (at) people.push([`${state.run} at step ${state.step}`, at]);
    }
    const names = [...new Set([state.one, state.two, state.first, state.failed === "*" ? null : state.failed].filter(Boolean))];
    const models = breadth.payload.models;
    for (const who of names.length || people.length ? names : models.length <= 4 ? models : []) {
      const right = await rightBy(who, rows);
      if (right) people.push([nameOf(who), right]);
    }
    if (!people.length) people.push([breadth.payload.unit === "runs" ? "runs" : "models", rows.map((row) => row.right)]);
    return people;
  };

  const chips = (state) => {
    const list = [];
    const chip = (text, keys) => {
      const button = breadth.button(`${text} ✕`, () => breadth.go({ ...Object.fromEntries(keys.map((key) => [key, null])), page: null }, { push: false }));
      button.setAttribute("aria-label", `Remove filter ${text}`);
      list.push(button);
    };
    if (listed(state.testset).length > 1) chip(`sets: ${listed(state.testset).join(", ")}`, ["testset"]);
    if (state.first && state.step === undefined) chip(`failures of ${nameOf(state.first)} first`, ["first"]);
    if (state.step !== undefined) chip(`failures of ${state.run} at step ${state.step} first`, ["run", "step", "first"]);
    return list;
  };

  breadth.panels.items = async (state, box) => {
    const rows = await breadth.items();
    if (!document.getElementById("filters")) await build(box, rows);
    sync(state);
    const { matching, groups } = await breadth.matchingItems(state);
    showCells(state, groups, document.getElementById("cells"));
    const people = await shownPeople(state, rows);
    const page = Math.min(Number(state.page || 0), Math.max(0, Math.ceil(matching.length / PAGE) - 1));
    const list = make("ol", null, "items");
    list.start = page * PAGE + 1;
    list.append(...matching.slice(page * PAGE, (page + 1) * PAGE).map((row) => entry(row, people)));
    const mean = (right) => {
      const known = matching.map((row) => right[row.index]).filter((value) => value !== null && value !== undefined);
      return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
    };
    const total = `${matching.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} questions`;
    document.getElementById("count").textContent = matching.length
      ? `${total}. Right${state.step === undefined && breadth.payload.unit === "runs" ? " at the end" : ""}: ${people.map(([name, right]) => `${name} ${percent(mean(right))}`).join(", ")}.`
      : "No question matches the filter.";
    document.getElementById("chips").replaceChildren(...chips(state));
    const tools = breadth.pager(page, matching.length, PAGE, (to) => { breadth.go({ page: to }, { push: false }); box.parentElement.scrollTop = 0; });
    tools.append(...["csv", "json"].map((kind) => breadth.button(`${kind.toUpperCase()} of these`, () => breadth.saveTable("items-filtered", kind, matching.map(breadth.plainItem)))));
    document.getElementById("item-list").replaceChildren(list, tools);
    return "Questions";
  };

  /* A row as the table of items has it. */
  breadth.plainItem = ({ index, fields, options, labels, search, ...row }) => row;
  breadth.matchingItems = async (state) => {
    const all = await breadth.items();
    const some = await filtered(state, all);
    const groups = await compared(state, some, all);
    const chosen = groups && Object.hasOwn(groups, state.cell || "") ? groups[state.cell] : some;
    return { matching: await order(state, chosen, all), groups };
  };
})();
