"use strict";
/* Figures: specifications with colour tokens and named tables become Vega views that fit their box and the theme. */
Object.assign(window.breadth, { charts: {}, drawn: {}, onDrill: () => {} });

(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  breadth.theme = () => (["light", "dark"].includes(breadth.state.theme) ? breadth.state.theme : dark.matches ? "dark" : "light");
  const setTheme = () => { document.documentElement.dataset.theme = breadth.theme(); };
  breadth.onState(setTheme);
  dark.addEventListener("change", () => breadth.go({}, { push: false }));
  setTheme();

  /* Width at which figures are drawn for paper, which scales them to three quarters: labels become 6 to 7 points. */
  const PAPER = 920;
  const HALF_PAPER = 450; /* narrow figures stand side by side */
  const last = {};
  const { filled, fit } = window.breadthFigures;

  const panelCount = (spec, rows) => {
    if (!spec.facet || !spec.facet.field) return 1;
    if (spec.usermeta && spec.usermeta.panels) return spec.usermeta.panels;
    const field = spec.facet.field === "panel" && rows.length && !("panel" in rows[0]) ? ["model", "train_set"] : [spec.facet.field];
    return new Set(rows.map((row) => field.map((name) => row[name]).join(" · "))).size;
  };

  const embed = async (box, spec, theme) => {
    const look = breadth.payload.themes[theme];
    const config = { ...look.config, background: look.tokens["@paper"] };
    const renderer = (spec.usermeta || {}).renderer || "svg";
    /* In an element of its own, because Vega renames the one it draws in. The box has the words. */
    const inner = document.createElement("div");
    inner.setAttribute("aria-hidden", "true");
    box.replaceChildren(inner);
    const result = await window.vegaEmbed(inner, spec, { mode: "vega-lite", actions: false, ast: true, renderer, config, logLevel: 1, tooltip: { theme: "custom" } });
    return result.view;
  };

  const place = async (key, box, theme, width) => {
    const figure = breadth.payload.figures[key];
    const used = new Set();
    const spec = filled(figure.spec, breadth.payload.themes[theme].tokens, used);
    const names = [...used];
    const tables = await Promise.all(names.map(breadth.rows));
    spec.datasets = Object.fromEntries(names.map((name, k) => [name, tables[k]]));
    if (spec.usermeta) delete spec.usermeta.most; /* the page puts narrow figures side by side */
    fit(spec, width, panelCount(spec, spec.datasets[figure.table] || []));
    for (const param of spec.params || []) {
      const chosen = breadth.switched(key, param.name);
      if (chosen !== undefined) param.value = chosen;
    }
    return embed(box, spec, theme);
  };

  /* What the reader set a switch of a figure to; undefined if it is as it was. */
  breadth.switched = (key, name) => {
    const chosen = breadth.state[`${key}.${name}`];
    return chosen === undefined || name !== "shown" ? chosen : [].concat(chosen);
  };

  breadth.boxOf = (key) => document.querySelector(`[data-figure="${CSS.escape(key)}"] .plot`);
  breadth.isStale = (key) => {
    const box = breadth.boxOf(key);
    return Boolean(box) && box.clientWidth > 0 && breadth.drawn[key] !== `${breadth.theme()} ${box.clientWidth}`;
  };

  breadth.draw = async (key) => {
    const box = breadth.boxOf(key);
    const figure = breadth.payload.figures[key];
    if (!box || !figure) return null;
    const mine = last[key] = {};
    breadth.drawn[key] = `${breadth.theme()} ${box.clientWidth}`;
    const before = box.getBoundingClientRect();
    box.style.minHeight = `${before.height}px`; /* so that nothing moves while the figure is replaced */
    const view = await place(key, box, breadth.theme(), box.clientWidth);
    if (last[key] !== mine) { view.finalize(); return null; }
    if (breadth.charts[key]) breadth.charts[key].finalize();
    breadth.charts[key] = view;
    box.style.minHeight = "";
    /* A figure much taller than the window scrolls in its own box, so that the page stays short. */
    box.classList.toggle("tall", box.scrollHeight > 2 * window.innerHeight);
    /* What the reader looks at stays where it is when a figure above it changes its height. */
    if (before.bottom < 80) window.scrollBy(0, box.getBoundingClientRect().height - before.height);
    if (Object.keys(figure.drill).length) {
      view.addEventListener("click", (_, item) => {
        const datum = item && item.datum && (item.datum.datum || item.datum);
        if (datum) breadth.onDrill(key, datum);
      });
    }
    box.dataset.drawn = "yes";
    return view;
  };

  /* The figure as it is printed: light, and as wide as paper. */
  breadth.drawPaper = async (key) => {
    const box = document.querySelector(`[data-figure="${CSS.escape(key)}"] .paper`);
    if (!box) return;
    const view = await place(key, box, "light", box.closest(".narrow") ? HALF_PAPER : PAPER);
    view.finalize();
    box.dataset.drawn = "yes";
  };

  breadth.drawAll = async () => { for (const key of Object.keys(breadth.payload.figures)) if (breadth.isStale(key)) await breadth.draw(key); };

  /* A small chart of the panel; rows are its data. */
  breadth.chart = async (box, rows, spec) => {
    const look = breadth.payload.themes[breadth.theme()];
    const ready = filled({ ...spec, data: { values: [] } }, look.tokens, new Set());
    ready.data = { values: rows };
    return embed(box, ready, breadth.theme());
  };

  /* The marks of a figure that have a tooltip: its words, and the row of data behind each. */
  breadth.marks = (key) => {
    const marks = new Map();
    const walk = (mark) => {
      for (const item of mark.items) {
        if (mark.marktype === "group") (item.items || []).forEach(walk);
        else if (item.tooltip && typeof item.tooltip === "object") {
          const words = JSON.stringify(item.tooltip);
          if (!marks.has(words)) marks.set(words, { words: item.tooltip, datum: item.datum.datum || item.datum });
        }
      }
    };
    walk(breadth.charts[key].scenegraph().root);
    return [...marks.values()];
  };

  breadth.save = (name, type, content) => {
    const link = document.createElement("a");
    link.href = typeof content === "string" && content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    if (link.href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  breadth.csv = (rows) => {
    if (!rows.length) return "";
    const names = Object.keys(rows[0]);
    const cell = (value) => {
      const text = value === null || value === undefined ? "" : String(value);
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [names.map(cell).join(","), ...rows.map((row) => names.map((name) => cell(row[name])).join(","))].join("\n") + "\n";
  };

  breadth.saveTable = (name, kind, rows) => {
    const file = `${breadth.payload.name}-${name}.${kind}`.replace(/[^\w.-]+/g, "_");
    if (kind === "csv") breadth.save(file, "text/csv", breadth.csv(rows));
    else breadth.save(file, "application/json", JSON.stringify(rows, null, 1) + "\n");
  };

  breadth.saveFigure = async (key, kind) => {
    const view = breadth.charts[key] || (await breadth.draw(key));
    const file = `${breadth.payload.name}-${key}.${kind}`.replace(/[^\w.-]+/g, "_");
    if (kind === "svg") breadth.save(file, "image/svg+xml", await view.toSVG(1));
    else breadth.save(file, "image/png", await view.toImageURL("png", 2));
  };
})();
