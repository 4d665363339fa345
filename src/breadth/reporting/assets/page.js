"use strict";
/* The page: theme, controls, downloads, and drawing figures when they come into view. */
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  let sight = null;

  const setTheme = () => { document.documentElement.dataset.theme = chosen || (dark.matches ? "dark" : "light"); };
  const redraw = async () => {
    for (const key of Object.keys(breadth.drawn)) await breadth.draw(key);
  };

  const bindFigure = (figure) => {
    const key = figure.dataset.figure;
    for (const input of figure.querySelectorAll("[data-signal]")) {
      const before = (breadth.signals[key] || {})[input.dataset.signal];
      if (before !== undefined) { if (input.type === "radio") input.checked = input.value === before; else input.value = before; }
      input.addEventListener("change", () => breadth.signal(key, input.dataset.signal, input.value));
    }
    for (const button of figure.querySelectorAll("[data-save]")) {
      if (!button.dataset.table) button.addEventListener("click", () => breadth.saveFigure(key, button.dataset.save));
    }
    const numbers = figure.querySelector("[data-numbers]");
    numbers.addEventListener("click", () => {
      const box = figure.querySelector(".numbers-table");
      const open = box.hidden;
      if (open) fillTable(box, key, numbers.dataset.numbers);
      box.hidden = !open;
      numbers.setAttribute("aria-expanded", String(open));
    });
  };

  /* The numbers behind a figure, for readers who cannot use the figure; a row leads to its items as a mark does. */
  const fillTable = (box, key, name) => {
    const rows = breadth.rows(name);
    const drill = breadth.payload.figures[key].drill;
    const names = rows.length ? Object.keys(rows[0]) : [];
    const table = document.createElement("table");
    const line = table.createTHead().insertRow();
    for (const column of [...names, ...(Object.keys(drill).length ? ["items"] : [])]) {
      const cell = document.createElement("th");
      cell.textContent = column;
      line.append(cell);
    }
    const body = table.createTBody();
    for (const row of rows.slice(0, 200)) {
      const entry = body.insertRow();
      for (const column of names) {
        const value = row[column];
        const cell = entry.insertCell();
        cell.textContent = value === null ? "" : typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(3)) : value;
        if (typeof value === "number") cell.className = "number";
      }
      if (Object.keys(drill).length) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = "show";
        button.addEventListener("click", () => breadth.onDrill(drill, row));
        entry.insertCell().append(button);
      }
    }
    box.replaceChildren(table);
    if (rows.length > 200) {
      const note = document.createElement("p");
      note.className = "count";
      note.textContent = `The first 200 of ${rows.length.toLocaleString("en")} rows; the CSV has all.`;
      box.append(note);
    }
  };

  const bindRuns = () => {
    const boxes = [...document.querySelectorAll("[data-run]")];
    if (!boxes.length) return;
    const before = (breadth.signals.trajectories || {}).shown;
    const label = () => { document.getElementById("runs-shown").textContent = `${boxes.filter((box) => box.checked).length} of ${boxes.length}`; };
    if (before) for (const box of boxes) box.checked = before.includes(box.dataset.run);
    const apply = () => {
      const names = boxes.filter((box) => box.checked).map((box) => box.dataset.run);
      label();
      breadth.signal("trajectories", "shown", names.length === boxes.length ? null : names);
    };
    for (const box of boxes) box.addEventListener("change", apply);
    for (const button of document.querySelectorAll("[data-runs], [data-runs-of]")) {
      button.addEventListener("click", () => {
        for (const box of boxes) box.checked = button.dataset.runs === "all" || box.dataset.model === button.dataset.runsOf;
        apply();
      });
    }
    label();
  };

  breadth.start = (payload) => {
    breadth.payload = payload;
    for (const view of Object.values(breadth.views)) view.finalize();
    breadth.views = {};
    breadth.drawn = {};
    document.querySelectorAll("figure[data-figure]").forEach(bindFigure);
    for (const button of document.querySelectorAll("[data-table][data-save]")) {
      button.addEventListener("click", () => breadth.saveTable(button.dataset.table, button.dataset.save, breadth.rows(button.dataset.table)));
    }
    bindRuns();
    breadth.startItems();
    if (sight) sight.disconnect();
    sight = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        sight.unobserve(entry.target);
        if (!(entry.target.dataset.figure in breadth.drawn)) breadth.draw(entry.target.dataset.figure);
      }
    }, { rootMargin: "400px" });
    document.querySelectorAll("figure[data-figure]").forEach((figure) => sight.observe(figure));
    /* The others when the browser is idle, so that the page soon has its final height. */
    const idle = window.requestIdleCallback || ((work) => setTimeout(work, 200));
    const next = async () => {
      if (breadth.payload !== payload) return;
      const key = Object.keys(payload.figures).find((name) => !(name in breadth.drawn));
      if (!key || document.hidden) return;
      await breadth.draw(key);
      idle(next);
    };
    setTimeout(() => idle(next), 600);
  };

  setTheme();
  dark.addEventListener("change", () => { if (!chosen) { setTheme(); redraw(); breadth.refreshItems(); } });
  document.getElementById("theme").addEventListener("click", () => {
    chosen = breadth.theme() === "dark" ? "light" : "dark";
    setTheme();
    redraw();
    breadth.refreshItems();
  });
  document.getElementById("print").addEventListener("click", async () => {
    const before = chosen;
    chosen = "light";
    setTheme();
    await breadth.drawAll();
    window.print();
    chosen = before;
    setTheme();
    redraw();
  });
  let waiting = null;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const [key, width] of Object.entries(breadth.drawn)) {
        const box = document.querySelector(`[data-figure="${key}"] .plot`);
        if (box && box.clientWidth !== width) breadth.draw(key);
      }
    }, 150);
  });
  breadth.start(JSON.parse(document.getElementById("payload").textContent));
})();
