"use strict";
/* Figures: specifications with colour tokens and named tables become Vega views that fit their box and the theme. */
window.breadth = { payload: null, views: {}, signals: {}, drawn: {}, onDrill: () => {} };

breadth.theme = () => document.documentElement.dataset.theme || "light";

breadth.rows = (name) => {
  const table = breadth.payload.tables[name];
  if (!table) return [];
  const names = Object.keys(table.columns);
  const read = names.map((column) => {
    const values = table.columns[column];
    if (Array.isArray(values)) return (i) => values[i];
    return (i) => (values.codes[i] === null ? null : values.names[values.codes[i]]);
  });
  return Array.from({ length: table.rows }, (_, i) => {
    const row = {};
    names.forEach((column, k) => { row[column] = read[k](i); });
    return row;
  });
};

(() => {
  const filled = (value, tokens, used) => {
    if (Array.isArray(value)) return value.map((entry) => filled(entry, tokens, used));
    if (value && typeof value === "object") {
      if (value.data && typeof value.data.name === "string") used.add(value.data.name);
      return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, filled(entry, tokens, used)]));
    }
    return typeof value === "string" && value in tokens ? tokens[value] : value;
  };

  /* Small multiples take as many columns as fit; everything else takes the width of its box. */
  const fit = (spec, box, panels) => {
    const hint = spec.usermeta || {};
    const width = Math.min(box, hint.most || box);
    if (!spec.facet) {
      if (spec.width === "container") {
        spec.width = width;
        spec.autosize = { type: "fit-x", contains: "padding" };
      }
      return;
    }
    if (hint.panel) {
      spec.columns = Math.max(1, Math.min(panels, Math.floor(width / hint.panel)));
      return;
    }
    const gap = 30; /* 20 between panels, and what the last label of an axis sticks out */
    spec.spacing = spec.spacing || 20;
    const room = width - (hint.pad || 60) - 12;
    const most = Math.max(1, Math.min(panels, Math.floor((room + gap) / ((hint.least || 220) + gap))));
    const columns = spec.facet.row ? 1 : Math.ceil(panels / Math.ceil(panels / most));
    if (!spec.facet.row) spec.columns = columns;
    spec.spec.width = Math.floor((room - gap * (columns - 1)) / columns);
  };

  const panelCount = (spec, rows) => {
    if (!spec.facet || !spec.facet.field) return 1;
    if (spec.usermeta && spec.usermeta.panels) return spec.usermeta.panels;
    const field = spec.facet.field === "panel" && rows.length && !("panel" in rows[0]) ? ["model", "train_set"] : [spec.facet.field];
    return new Set(rows.map((row) => field.map((name) => row[name]).join(" · "))).size;
  };

  breadth.draw = async (key) => {
    const box = document.querySelector(`[data-figure="${key}"] .plot`);
    const figure = breadth.payload.figures[key];
    if (!box || !figure) return null;
    const look = breadth.payload.themes[breadth.theme()];
    const used = new Set();
    const spec = filled(figure.spec, look.tokens, used);
    spec.datasets = Object.fromEntries([...used].map((name) => [name, breadth.rows(name)]));
    const rows = spec.datasets[figure.table] || [];
    fit(spec, box.clientWidth, panelCount(spec, rows));
    for (const param of spec.params || []) {
      const chosen = (breadth.signals[key] || {})[param.name];
      if (chosen !== undefined) param.value = chosen;
    }
    const config = { ...look.config, background: look.tokens["@paper"] };
    const renderer = (spec.usermeta || {}).renderer || "svg";
    const result = await window.vegaEmbed(box, spec, { mode: "vega-lite", actions: false, ast: true, renderer, config, logLevel: 1, tooltip: { theme: "custom" } });
    if (breadth.views[key]) breadth.views[key].finalize();
    breadth.views[key] = result.view;
    breadth.drawn[key] = box.clientWidth;
    if (Object.keys(figure.drill).length) {
      result.view.addEventListener("click", (_, item) => {
        const datum = item && item.datum && (item.datum.datum || item.datum);
        if (datum) breadth.onDrill(figure.drill, datum);
      });
    }
    box.dataset.drawn = "yes";
    return result.view;
  };

  breadth.drawAll = async () => { for (const key of Object.keys(breadth.payload.figures)) await breadth.draw(key); };

  breadth.signal = (key, name, value) => {
    (breadth.signals[key] = breadth.signals[key] || {})[name] = value;
    const view = breadth.views[key];
    return view ? view.signal(name, value).runAsync() : null;
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
    const view = breadth.views[key] || (await breadth.draw(key));
    const file = `${breadth.payload.name}-${key}.${kind}`.replace(/[^\w.-]+/g, "_");
    if (kind === "svg") breadth.save(file, "image/svg+xml", await view.toSVG(1));
    else breadth.save(file, "image/png", await view.toImageURL("png", 2));
  };
})();
