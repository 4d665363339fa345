"use strict";
/* The panel beside the figures: what is behind a mark. Its views register themselves in `breadth.panels`. */
(() => {
  const KEYS = [
    "panel", "figure", "item", "of", "a", "b", "model", "run", "step", "train_set", "from", "to", "adjusted", "testset", "level",
    "label", "failed", "text", "low", "high", "doubt", "sort", "down", "first", "page", "one", "two", "cell",
  ];
  const ROWS = 100;
  let opener = null;
  let shown = null;
  let theme = breadth.theme();

  const panel = () => document.getElementById("panel");

  breadth.make = (tag, text, name) => {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = text;
    if (name) node.className = name;
    return node;
  };
  const make = breadth.make;

  breadth.button = (text, act, name) => {
    const button = make("button", text, name);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  };

  breadth.number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−"));

  const blank = (value) => value === null || value === undefined || value === "";

  /* A table with a caption for screen readers. `rows` are arrays of texts or nodes; columns without any are left out. */
  breadth.grid = (caption, heads, rows) => {
    const kept = heads.map((_, k) => k).filter((k) => rows.some((row) => !blank(row[k])));
    const numeric = new Set(kept.filter((k) => rows.every((row) => blank(row[k]) || (typeof row[k] === "string" && /^[<> +−–-]*[\d.,]+%?$|^–$/.test(row[k])))));
    const table = make("table");
    table.append(make("caption", caption, "unseen"));
    const line = table.createTHead().insertRow();
    for (const k of kept) {
      const cell = make(heads[k] ? "th" : "td", heads[k], numeric.has(k) ? "number" : "");
      if (heads[k]) cell.scope = "col";
      line.append(cell);
    }
    const body = table.createTBody();
    for (const row of rows) {
      const entry = body.insertRow();
      for (const k of kept) {
        const cell = entry.insertCell();
        cell.append(blank(row[k]) ? "" : row[k]);
        cell.className = numeric.has(k) ? "number" : typeof row[k] === "string" && row[k].length > 40 ? "long" : "";
      }
    }
    const box = make("div", null, "scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", caption);
    box.append(table);
    return box;
  };

  /* Previous, page, next; `turn` gets the new page. */
  breadth.pager = (page, rows, size, turn) => {
    const line = make("p", null, "pager");
    const pages = Math.max(1, Math.ceil(rows / size));
    const previous = breadth.button("Previous", () => turn(page - 1));
    const next = breadth.button("Next", () => turn(page + 1));
    previous.disabled = page === 0;
    next.disabled = page >= pages - 1;
    line.append(previous, make("span", `${page + 1} / ${pages}`), next);
    return line;
  };

  const cleared = () => Object.fromEntries(KEYS.map((key) => [key, null]));

  breadth.open = (view, values) => {
    if (!breadth.state.panel) opener = document.activeElement;
    breadth.go({ ...cleared(), panel: view, ...values });
  };
  breadth.close = () => breadth.go(cleared());

  /* What is behind a mark: two test sets lead to their checkpoints, anything else to items, subjects or scores. */
  const behind = (key, datum) => {
    const { drill } = breadth.payload.figures[key];
    const { tables } = breadth.payload;
    const role = (name) => { const value = datum[name in drill ? drill[name] : name]; return value === undefined ? null : value; };
    const roles = (...names) => Object.fromEntries(names.map((name) => [name, role(name)]));
    if ("testset2" in drill) return { panel: "pair", a: role("testset2"), b: role("testset"), ...roles("model", "run", "train_set", "from", "to") };
    if ("low" in drill && datum.side && datum.side !== "items") return tables.subjects ? { panel: "subjects", ...roles("low", "high") } : null;
    if (!tables.items) return "testset" in drill && tables.trajectories && role("testset") ? { panel: "course", ...roles("testset", "model") } : null;
    const values = { panel: "items", ...roles(...["testset", "level", "low", "high"].filter((name) => name in drill)) };
    if ("model" in drill) values.first = role("model");
    const at = "step" in datum && datum.run && breadth.hasAnswers() ? roles("run", "step") : {};
    return { ...values, ...at };
  };

  breadth.onDrill = (key, datum) => {
    const found = behind(key, datum);
    if (!found) return;
    if (breadth.boxOf(key) && !panel().contains(document.activeElement)) breadth.boxOf(key).focus({ preventScroll: true });
    const { panel: view, ...values } = found;
    breadth.open(view, { figure: key, ...values });
  };

  /* Vega writes a value that is not there as the word null; a mean over all models has no model. */
  const inWords = (name, value) => {
    if (value === undefined || value === null || value === "null") return name === "model" ? "all models" : "";
    return String(value);
  };

  breadth.panels = {
    /* The marks of a figure in words, for readers who do not use the figure. */
    marks: async (state, box) => {
      const key = state.figure;
      if (!Object.hasOwn(breadth.payload.figures, key)) return "No such figure";
      if (!breadth.charts[key]) await breadth.draw(key);
      const figure = breadth.payload.figures[key];
      const marks = breadth.marks(key);
      const names = [...new Set(marks.flatMap((mark) => Object.keys(mark.words)))];
      const page = Number(state.page || 0);
      const drills = marks.some((mark) => behind(key, mark.datum));
      const rows = marks.slice(page * ROWS, (page + 1) * ROWS).map((mark, k) => [
        behind(key, mark.datum) ? openMark(key, mark, page * ROWS + k + 1) : "",
        ...names.map((name) => inWords(name, mark.words[name])),
      ]);
      box.replaceChildren(
        make("p", `${marks.length.toLocaleString("en")} marks are drawn.${drills ? " Open one to see what is behind it." : ""}`, "count"),
        breadth.grid(`Marks of the figure ${figure.title}`, ["behind it", ...names], rows),
      );
      if (marks.length > ROWS) box.append(breadth.pager(page, marks.length, ROWS, (to) => breadth.go({ page: to }, { push: false })));
      return figure.title;
    },

    /* Subjects in a range of ability. */
    subjects: async (state, box) => {
      const inside = (await breadth.rows("subjects")).filter((row) => row.ability !== null && row.ability >= Number(state.low) && row.ability <= Number(state.high));
      inside.sort((one, two) => two.ability - one.ability);
      box.replaceChildren(
        make("p", `${inside.length.toLocaleString("en")} subjects have an ability from ${breadth.number(Number(state.low))} to ${breadth.number(Number(state.high))}.`, "count"),
        breadth.grid("Subjects", ["subject", "ability", "standard error"], inside.slice(0, 500).map((row) => [row.subject, breadth.number(row.ability), breadth.number(row.ability_se)])),
      );
      return "Subjects of this ability";
    },
  };

  const openMark = (key, mark, number) => {
    const button = breadth.button("Open", () => breadth.onDrill(key, mark.datum));
    button.setAttribute("aria-label", `Open mark ${number}: ${Object.entries(mark.words).slice(0, 4).map(([name, value]) => `${name} ${value}`).join(", ")}`);
    return button;
  };

  const show = async (state, before) => {
    const view = Object.hasOwn(breadth.panels, state.panel || "") ? state.panel : null;
    const wasOpen = !panel().hidden;
    const body = document.getElementById("panel-body");
    if (!view) {
      if (!wasOpen) return;
      panel().hidden = true;
      shown = null;
      body.replaceChildren();
      breadth.still(() => document.body.classList.remove("beside"));
      if (opener && opener.isConnected && opener !== document.body) opener.focus({ preventScroll: true });
      else if (before && before.figure && breadth.boxOf(before.figure)) breadth.boxOf(before.figure).focus({ preventScroll: true });
      opener = null;
      return;
    }
    const same = shown === `${view} ${state.item || ""} ${state.figure || ""}` && wasOpen;
    shown = `${view} ${state.item || ""} ${state.figure || ""}`;
    const mine = shown;
    if (!wasOpen) {
      panel().hidden = false;
      breadth.still(() => document.body.classList.add("beside"), state.figure);
    }
    if (!same) body.replaceChildren();
    const title = await breadth.panels[view](state, body);
    if (shown !== mine) return;
    document.getElementById("panel-title").textContent = title;
    panel().dataset.view = view;
    if (!same) {
      body.parentElement.scrollTop = 0;
      document.getElementById("panel-title").focus({ preventScroll: true });
    }
  };

  /* Change the layout without moving what the reader looks at. */
  breadth.still = (change, key) => {
    const figures = [...document.querySelectorAll("figure[data-figure]")];
    const anchor = figures.find((figure) => figure.dataset.figure === key)
      || figures.find((figure) => figure.getBoundingClientRect().bottom > 80) || document.querySelector("main section");
    const top = anchor ? anchor.getBoundingClientRect().top : 0;
    change();
    if (anchor) window.scrollBy(0, anchor.getBoundingClientRect().top - top);
  };

  breadth.startPanel = () => show(breadth.state, null);
  breadth.onState((state, before) => {
    const look = breadth.theme();
    if (look !== theme || KEYS.some((name) => String(state[name]) !== String(before[name]))) show(state, before);
    theme = look;
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && breadth.state.panel) breadth.close();
    const plot = event.target.closest && event.target.closest(".plot[data-key]");
    if (plot && plot === event.target && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      breadth.open("marks", { figure: plot.dataset.key });
    }
  });
  document.getElementById("panel-close").addEventListener("click", () => breadth.close());
  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("[data-panel]");
    if (!button) return;
    const { panel: view, ...values } = JSON.parse(button.dataset.panel);
    breadth.open(view, values);
  });
})();
