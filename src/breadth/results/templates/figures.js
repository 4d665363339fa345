"use strict";
/* What the report and stand-alone figures share: a specification with its colours filled in, as wide as its box. */
window.breadthFigures = {
  /* A copy in which tokens are colours; `used` collects the names of the tables it reads. */
  filled(value, tokens, used) {
    const copy = (entry) => {
      if (Array.isArray(entry)) return entry.map(copy);
      if (entry && typeof entry === "object") {
        if (entry.data && typeof entry.data.name === "string") used.add(entry.data.name);
        return Object.fromEntries(Object.entries(entry).map(([key, each]) => [key, copy(each)]));
      }
      return typeof entry === "string" && entry in tokens ? tokens[entry] : entry;
    };
    return copy(value);
  },

  /* Small multiples take as many columns as fit; everything else takes the width of its box. */
  fit(spec, box, panels) {
    const hint = spec.usermeta || {};
    const width = Math.min(box, hint.most || box);
    if (!spec.facet) {
      if (spec.width === "container") Object.assign(spec, { width, autosize: { type: "fit-x", contains: "padding" } });
    } else if (hint.panel) {
      if (spec.facet.field) spec.columns = Math.max(1, Math.min(panels, Math.floor(width / hint.panel)));
    } else {
      const gap = 30; /* 20 between panels, and what the last label of an axis sticks out */
      spec.spacing = spec.spacing || 20;
      const room = width - (hint.pad || 60) - 12;
      const most = Math.max(1, Math.min(panels, Math.floor((room + gap) / ((hint.least || 220) + gap))));
      const columns = spec.facet.row ? 1 : Math.ceil(panels / Math.ceil(panels / most));
      if (!spec.facet.row) spec.columns = columns;
      spec.spec.width = Math.floor((room - gap * (columns - 1)) / columns);
    }
  },
};
