"use strict";
/* The table of items: filter, sort, page. Texts only ever become text nodes. */
(() => {
  const PAGE = 100;
  const state = { sets: [], low: null, high: null, page: 0, sort: null, down: false, first: null };
  let rows = [];
  let matching = [];

  const form = () => document.getElementById("filters");
  const make = (tag, text, name) => {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = text;
    if (name) node.className = name;
    return node;
  };
  const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)}%`);

  const columns = () => {
    const there = rows.length ? rows[0] : {};
    const models = breadth.payload.models;
    return [
      { key: "text", label: "Item", cell: (row) => itemCell(row), sort: (row) => row.item, wide: true },
      { key: "testset", label: "Test set", cell: (row) => row.testset },
      "label" in there && { key: "label", label: "Label", cell: (row) => row.label },
      "level" in there && { key: "level", label: "Level", cell: (row) => row.level, number: true },
      "difficulty" in there && {
        key: "difficulty", label: "Difficulty", number: true,
        cell: (row) => (row.difficulty === null || row.difficulty_se === null ? "–" : `${row.difficulty.toFixed(1)} ± ${(1.96 * row.difficulty_se).toFixed(1)}`.replace("-", "−")),
      },
      { key: "right", label: breadth.payload.unit === "runs" ? "Right at the end" : "Right", cell: (row) => shares(row, models), sort: (row) => row.right },
    ].filter(Boolean);
  };

  const itemCell = (row) => {
    const cell = document.createDocumentFragment();
    cell.append(make("span", row.text || row.item));
    if (row.text) cell.append(make("span", row.item, "id"));
    if (row.doubt) cell.append(make("span", `Label doubted: ${row.doubt}`, "doubt"));
    return cell;
  };

  const shares = (row, models) => {
    const cell = document.createDocumentFragment();
    const tokens = breadth.payload.themes[breadth.theme()].tokens;
    const listed = models.length <= 4 ? models : models.filter((model) => row[`right_${model}`] < 0.5).slice(0, 4);
    for (const model of listed) {
      const share = row[`right_${model}`];
      const line = make("span", null, "share");
      const dot = make("i");
      const colour = tokens[`@model${models.indexOf(model) % 8}`];
      dot.style.borderColor = colour;
      if (share >= 0.5) dot.style.background = colour;
      line.append(dot, make("span", model), make("b", percent(share)));
      cell.append(line);
    }
    if (models.length > 4) cell.append(make("span", `${percent(row.right)} of all ${breadth.payload.unit}`, "id"));
    return cell;
  };

  const filter = () => {
    const chosen = Object.fromEntries(new FormData(form()));
    const words = (chosen.text || "").toLowerCase().split(/\s+/).filter(Boolean);
    const models = breadth.payload.models;
    const level = chosen.level === undefined || chosen.level === "" ? null : Number(chosen.level);
    const wrong = (row, model) => row[`right_${model}`] !== null && row[`right_${model}`] < 0.5;
    matching = rows.filter((row) =>
      (!state.sets.length || state.sets.includes(row.testset)) &&
      (level === null || row.level === level) &&
      (!chosen.label || row.label === chosen.label) &&
      (!chosen.failed || (chosen.failed === "*" ? models.every((model) => wrong(row, model)) : wrong(row, chosen.failed))) &&
      (!chosen.doubt || row.doubt) &&
      (state.low === null || (row.difficulty !== null && row.difficulty >= state.low && row.difficulty <= state.high)) &&
      words.every((word) => row.search.includes(word)));
    if (state.first) {
      const name = `right_${state.first}`;
      matching.sort((one, two) => (one[name] === null ? 2 : one[name]) - (two[name] === null ? 2 : two[name]));
    } else if (state.sort) {
      const column = columns().find((entry) => entry.key === state.sort);
      const value = column.sort || ((row) => row[column.key]);
      const sign = state.down ? -1 : 1;
      matching.sort((one, two) => {
        const [a, b] = [value(one), value(two)];
        if (a === b) return 0;
        if (a === null || a === undefined) return 1;
        if (b === null || b === undefined) return -1;
        return a < b ? -sign : sign;
      });
    }
    state.page = Math.min(state.page, Math.max(0, Math.ceil(matching.length / PAGE) - 1));
    show();
  };

  const head = () => {
    const line = make("tr");
    for (const column of columns()) {
      const cell = make("th", null, column.number ? "number" : "");
      cell.scope = "col";
      if (state.sort === column.key) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      const button = make("button", column.label);
      button.type = "button";
      button.addEventListener("click", () => {
        state.down = state.sort === column.key && !state.down;
        state.sort = column.key;
        state.first = null;
        head();
        filter();
      });
      cell.append(button);
      line.append(cell);
    }
    document.querySelector("#item-table thead").replaceChildren(line);
  };

  const show = () => {
    const start = state.page * PAGE;
    const body = document.createDocumentFragment();
    const shown = columns();
    for (const row of matching.slice(start, start + PAGE)) {
      const line = make("tr");
      for (const column of shown) {
        const cell = make("td", null, column.number ? "number" : column.wide ? "text" : "");
        if (!column.wide && column.key !== "right") cell.dataset.label = column.label;
        const content = column.cell(row);
        cell.append(content === null || content === undefined ? "" : content);
        if (content === null || content === undefined) cell.classList.add("missing");
        line.append(cell);
      }
      body.append(line);
    }
    document.querySelector("#item-table tbody").replaceChildren(body);
    const last = Math.min(matching.length, start + PAGE);
    document.getElementById("count").textContent = matching.length
      ? `Items ${(start + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${matching.length.toLocaleString("en")}${matching.length < rows.length ? ` (${rows.length.toLocaleString("en")} without the filter)` : ""}`
      : "No item matches the filter.";
    document.getElementById("page").textContent = `${state.page + 1} / ${Math.max(1, Math.ceil(matching.length / PAGE))}`;
    document.getElementById("previous").disabled = state.page === 0;
    document.getElementById("next").disabled = last >= matching.length;
    chips();
  };

  const chips = () => {
    const list = [];
    const chip = (text, clear) => {
      const button = make("button", `${text} ✕`);
      button.type = "button";
      button.setAttribute("aria-label", `Remove filter ${text}`);
      button.addEventListener("click", () => { clear(); filter(); });
      list.push(button);
    };
    if (state.sets.length > 1) chip(`sets: ${state.sets.join(", ")}`, () => { state.sets = []; });
    if (state.first) chip(`failures of ${state.first} first`, () => { state.first = null; });
    if (state.low !== null) chip(`difficulty ${state.low.toFixed(2)} to ${state.high.toFixed(2)}`.replaceAll("-", "−"), () => { state.low = state.high = null; });
    document.getElementById("chips").replaceChildren(...list);
  };

  const reset = () => {
    form().reset();
    Object.assign(state, { sets: [], low: null, high: null, page: 0, first: null });
  };

  /* A mark was clicked: show the items behind it. */
  breadth.onDrill = (drill, datum) => {
    if (!form()) return;
    if ("low" in drill && datum.side && datum.side !== "items") return;
    reset();
    const fields = form().elements;
    const set = [drill.testset2, drill.testset].filter(Boolean).map((field) => datum[field]).filter((name) => name !== undefined && name !== null);
    state.sets = [...new Set(set)];
    if (fields.testset) fields.testset.value = state.sets.length === 1 ? state.sets[0] : "";
    if (drill.level && fields.level && datum[drill.level] !== undefined) fields.level.value = String(datum[drill.level]);
    if (drill.model && breadth.payload.models.includes(datum[drill.model])) state.first = datum[drill.model];
    if (drill.low) Object.assign(state, { low: datum[drill.low], high: datum[drill.high] });
    filter();
    document.getElementById("items").scrollIntoView();
    form().elements[0].focus({ preventScroll: true });
  };

  breadth.startItems = () => {
    if (!form()) return;
    rows = breadth.rows("items");
    for (const row of rows) row.search = `${row.text || ""} ${row.item}`.toLowerCase();
    form().addEventListener("input", (event) => {
      if (event.target.name === "testset") state.sets = event.target.value ? [event.target.value] : [];
      state.page = 0;
      filter();
    });
    form().addEventListener("submit", (event) => event.preventDefault());
    form().addEventListener("reset", (event) => { event.preventDefault(); for (const field of form().elements) { if (field.type === "checkbox") field.checked = false; else if (field.name) field.value = ""; } reset.call(null); filter(); });
    document.getElementById("previous").addEventListener("click", () => { state.page -= 1; show(); });
    document.getElementById("next").addEventListener("click", () => { state.page += 1; show(); });
    for (const button of document.querySelectorAll("[data-save-items]")) {
      button.addEventListener("click", () => breadth.saveTable("items-filtered", button.dataset.saveItems, matching.map(({ search, ...row }) => row)));
    }
    if (state.sets.length === 1) form().elements.testset.value = state.sets[0];
    head();
    filter();
  };
  breadth.refreshItems = () => { if (form()) show(); };
})();
