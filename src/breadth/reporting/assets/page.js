"use strict";
/* The page: theme, switches, downloads, printing, and drawing figures when they come into view. */
(() => {
  const near = new Set();
  const LARGE = 20000;
  let sight = null;
  /* A window in which nothing moves may never be called idle: hence the limit. */
  const idle = (work) => (window.requestIdleCallback ? window.requestIdleCallback(work, { timeout: 300 }) : setTimeout(work, 200));

  /* One figure at a time, so that the first is there soon: those in view, then, when the browser is idle, the others and
     the copies for paper. Drawing a large table a second time takes seconds: that waits until the reader prints. */
  const figures = () => [...document.querySelectorAll("figure[data-figure]")];
  const small = (key) => breadth.payload.tables[breadth.payload.figures[key].table].rows < LARGE;
  let drawing = false;
  const drawNext = async (wanted) => {
    drawing = true;
    try {
      await wanted();
    } finally {
      drawing = false;
      requestAnimationFrame(() => setTimeout(refresh)); /* once the browser has painted it */
    }
  };
  const refresh = () => {
    if (drawing) return;
    const key = figures().map((figure) => figure.dataset.figure).find((name) => near.has(name) && breadth.isStale(name));
    if (key) drawNext(() => breadth.draw(key));
    else idle(rest);
  };
  const rest = async () => {
    if (drawing || document.hidden) return;
    const keys = figures().map((figure) => figure.dataset.figure);
    const stale = keys.find(breadth.isStale);
    const unprinted = keys.find((key) => small(key) && document.querySelector(`[data-figure="${CSS.escape(key)}"] .paper:not([data-drawn])`));
    if (stale || unprinted) { drawNext(() => (stale ? breadth.draw(stale) : breadth.drawPaper(unprinted))); return; }
    if (breadth.payload.tables.items) await Promise.all([breadth.items(), breadth.runs()]); /* so that the panel opens at once */
    document.documentElement.dataset.ready = "yes";
  };
  document.addEventListener("visibilitychange", refresh);

  const setSwitch = (input, value) => { if (input.type === "radio") input.checked = input.value === value; else input.value = value; };

  const bindFigure = (figure) => {
    const key = figure.dataset.figure;
    for (const input of figure.querySelectorAll("[data-signal]")) {
      const name = input.dataset.signal;
      const chosen = breadth.switched(key, name);
      if (chosen !== undefined) setSwitch(input, chosen);
      const first = () => (input.tagName === "SELECT" ? input.options[0].value : figure.querySelector(`input[data-signal="${CSS.escape(name)}"]`).value);
      input.addEventListener("change", () => breadth.go({ [`${key}.${name}`]: input.value === first() ? null : input.value }, { push: false }));
    }
    for (const button of figure.querySelectorAll("[data-save]")) {
      if (!button.dataset.table) button.addEventListener("click", () => breadth.saveFigure(key, button.dataset.save));
    }
  };

  /* Switches of figures, from the address. A switch that the address does not name is as the figure defines it. */
  const applySwitches = (state, before) => {
    const changed = [...new Set([...Object.keys(state), ...Object.keys(before)])].filter((name) => name.includes(".") && String(state[name]) !== String(before[name]));
    for (const full of changed) {
      const key = full.slice(0, full.indexOf("."));
      const name = full.slice(key.length + 1);
      const figure = Object.hasOwn(breadth.payload.figures, key) ? breadth.payload.figures[key] : null;
      const param = figure && (figure.spec.params || []).find((entry) => entry.name === name);
      if (!param) continue;
      const value = breadth.switched(key, name);
      const now = value === undefined ? param.value : value;
      for (const input of document.querySelectorAll(`[data-figure="${CSS.escape(key)}"] [data-signal="${CSS.escape(name)}"]`)) setSwitch(input, now);
      if (name === "shown") showRuns();
      const paper = document.querySelector(`[data-figure="${CSS.escape(key)}"] .paper`);
      if (paper) delete paper.dataset.drawn;
      if (breadth.charts[key]) breadth.charts[key].signal(name, now).runAsync();
      refresh();
    }
  };

  const boxes = () => [...document.querySelectorAll("[data-run]")];
  const showRuns = () => {
    const chosen = breadth.switched("trajectories", "shown");
    for (const box of boxes()) box.checked = !chosen || chosen.includes(box.dataset.run);
    document.getElementById("runs-shown").textContent = `${boxes().filter((box) => box.checked).length} of ${boxes().length}`;
  };
  const bindRuns = () => {
    if (!boxes().length) return;
    const apply = () => {
      const names = boxes().filter((box) => box.checked).map((box) => box.dataset.run);
      const none = " "; /* an empty list would be all of them */
      breadth.go({ "trajectories.shown": names.length === boxes().length ? null : names.length ? names : none }, { push: false });
    };
    for (const box of boxes()) box.addEventListener("change", apply);
    for (const button of document.querySelectorAll("[data-runs], [data-runs-of]")) {
      button.addEventListener("click", () => {
        for (const box of boxes()) box.checked = button.dataset.runs === "all" || box.dataset.model === button.dataset.runsOf;
        apply();
      });
    }
    showRuns();
  };

  const saved = async (name) => (name === "items" ? (await breadth.items()).map(breadth.plainItem) : breadth.rows(name));

  breadth.start = (payload) => {
    breadth.payload = payload;
    for (const view of Object.values(breadth.charts)) view.finalize();
    Object.assign(breadth, { charts: {}, drawn: {} });
    figures().forEach(bindFigure);
    for (const button of document.querySelectorAll("[data-table][data-save]")) {
      button.addEventListener("click", async () => breadth.saveTable(button.dataset.table, button.dataset.save, await saved(button.dataset.table)));
    }
    bindRuns();
    breadth.bindGrid();
    breadth.startPanel();
    if (sight) sight.disconnect();
    near.clear();
    sight = new IntersectionObserver((entries) => {
      for (const entry of entries) near[entry.isIntersecting ? "add" : "delete"](entry.target.dataset.figure);
      refresh();
    }, { rootMargin: "300px" });
    figures().forEach((figure) => sight.observe(figure));
  };

  /* On paper: items as an appendix if the reader asks for them, and figures that are not ready yet. */
  const appendix = async () => {
    const place = document.getElementById("appendix");
    if (!breadth.state.appendix || !breadth.payload.tables.items) { place.replaceChildren(); return; }
    const { matching } = await breadth.matchingItems(breadth.state);
    const rows = matching.slice(0, 2000).map((row) => [row.item, row.item.includes(row.testset) ? "" : row.testset, row.text, row.label, row.difficulty === null || row.difficulty === undefined ? "" : breadth.number(row.difficulty, 1), row.right === null ? "" : `${Math.round(100 * row.right)}%`]);
    const note = matching.length > rows.length ? `The first ${rows.length.toLocaleString("en")} of ${matching.length.toLocaleString("en")} questions.` : `${matching.length.toLocaleString("en")} questions.`;
    place.replaceChildren(breadth.make("h2", "Appendix: questions"), breadth.make("p", note), breadth.grid("Questions", ["question", "test set", "text", "label", "difficulty", "right"], rows));
  };
  breadth.preparePrint = async () => {
    await appendix();
    for (const paper of document.querySelectorAll("figure[data-figure] .paper:not([data-drawn])")) await breadth.drawPaper(paper.closest("figure").dataset.figure);
  };
  const print = async () => {
    document.getElementById("print-menu").open = false;
    await breadth.preparePrint();
    window.print();
  };
  document.getElementById("print").addEventListener("click", print);
  document.addEventListener("keydown", (event) => {
    if (event.key === "p" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) { event.preventDefault(); print(); }
  });
  const include = document.getElementById("print-items");
  include.addEventListener("change", () => breadth.go({ appendix: include.checked ? "1" : null }, { push: false }));

  /* A menu closes when the reader turns to something else. */
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.export[open]")) if (!menu.contains(event.target) || event.target.closest("button")) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest && event.target.closest("details.export[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });

  document.getElementById("theme").addEventListener("click", () => breadth.go({ theme: breadth.theme() === "dark" ? "light" : "dark" }, { push: false }));
  let theme = breadth.theme();
  breadth.onState((state, before) => {
    include.checked = Boolean(state.appendix);
    if (state.appendix !== before.appendix) appendix();
    applySwitches(state, before);
    if (document.documentElement.dataset.theme !== theme) refresh();
    theme = document.documentElement.dataset.theme;
  });
  let waiting = null;
  new ResizeObserver(() => { clearTimeout(waiting); waiting = setTimeout(refresh, 100); }).observe(document.getElementById("main"));
  breadth.start(JSON.parse(document.getElementById("payload").textContent));
  include.checked = Boolean(breadth.state.appendix);
  if (include.checked) appendix();
  if (breadth.state.at && document.getElementById(breadth.state.at)) document.getElementById(breadth.state.at).scrollIntoView();
})();
