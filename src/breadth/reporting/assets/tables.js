"use strict";
/* What the page carries: tables by column, texts of items, single answers. Long columns are inflated on first use. */
window.breadth = { payload: null };

(() => {
  const kept = new WeakMap();

  const once = (key, make) => {
    if (!kept.has(key)) kept.set(key, make());
    return kept.get(key);
  };

  breadth.inflate = async (text) => {
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  };

  /* A column as a function from row to value. */
  const column = async (values) => {
    if (Array.isArray(values)) return (i) => values[i];
    if (values.names) {
      const code = await column(values.codes);
      return (i) => { const k = code(i); return k === null ? null : values.names[k]; };
    }
    const numbers = new (values.type === "f4" ? Float32Array : Int32Array)(await breadth.inflate(values.packed));
    if (values.type === "f4") return (i) => (Number.isNaN(numbers[i]) ? null : Number(numbers[i].toPrecision(7)));
    return (i) => (numbers[i] === values.null ? null : numbers[i]);
  };

  breadth.columns = async (columns) => {
    const names = Object.keys(columns);
    const read = await Promise.all(names.map((name) => column(columns[name])));
    return Object.fromEntries(names.map((name, k) => [name, read[k]]));
  };

  const lines = (length, read) => {
    const entries = Object.entries(read);
    return Array.from({ length }, (_, i) => {
      const row = {};
      for (const [name, value] of entries) row[name] = value(i);
      return row;
    });
  };

  /* New objects every time, because a figure marks those it is given. */
  breadth.rows = async (name) => {
    const table = breadth.payload.tables[name];
    if (!table) return [];
    return lines(table.rows, await once(table, () => breadth.columns(table.columns)));
  };

  /* The items with their texts, made once: `fields` by name, `text` as one, `search` in lower case. */
  breadth.items = () => once(breadth.payload, async () => {
    const rows = await breadth.rows("items");
    const texts = breadth.payload.texts || { fields: [], columns: {}, options: {}, prompts: {} };
    const read = await breadth.columns(texts.columns);
    rows.forEach((row, i) => {
      row.index = i;
      row.fields = texts.fields.map((name) => [name, read[name](i)]).filter(([, value]) => value !== null);
      row.options = texts.options.options ? texts.options.options[i] : null;
      row.labels = texts.options.option_labels ? texts.options.option_labels[i] : null;
      row.text = row.fields.map(([name, value]) => (texts.fields.length > 1 ? `${name}: ${value}` : value)).join("\n");
      row.search = `${row.text} ${row.item}`.toLowerCase();
    });
    return rows;
  });

  /* The prompt of an item as its test set recorded it; null if it did not. */
  breadth.prompt = (row) => {
    const prompt = breadth.payload.texts.prompts[row.testset];
    if (!prompt || !prompt.parts.length) return null;
    const values = Object.fromEntries(row.fields);
    if (row.options) values.choices = row.options.map((text, k) => `${row.labels[k]}. ${text}`).join("\n");
    return prompt.parts.map(([text, field]) => text + (field === null ? "" : field in values ? values[field].trim() : `{${field}}`)).join("");
  };

  const answers = () => (breadth.payload.answers && breadth.payload.answers.chunks ? breadth.payload.answers : null);

  const decode = (code) => {
    if (!code) return null;
    if (answers().shares) return { right: (code - 1) / 100, margin: null };
    const size = (code - 1) >> 1;
    return { right: (code - 1) & 1, margin: size ? Math.sinh((size - 32) / answers().fineness) : null };
  };

  /* Runs, and subjects (checkpoints of runs), in the order of the stored answers. */
  const who = () => once(answers(), async () => {
    const { runs, subjects, checkpoints } = answers();
    const ends = new Uint8Array(await breadth.inflate(answers().ends));
    const many = ends.length / Math.max(1, breadth.payload.tables.items.rows);
    const list = lines(many, await breadth.columns(runs));
    const models = Object.fromEntries(list.map((run) => [run.run, run.model]));
    const each = lines(checkpoints[0], await breadth.columns(subjects));
    for (const subject of each) subject.model = models[subject.run];
    return { ends, runs: list, subjects: each };
  });

  const chunk = (k) => {
    const store = once(answers().chunks, () => ({}));
    store[k] = store[k] || breadth.inflate(answers().chunks[k]).then((buffer) => new Uint8Array(buffer));
    return store[k];
  };

  breadth.hasAnswers = () => Boolean(answers());
  breadth.runs = async () => (answers() ? (await who()).runs : []);

  /* Every subject's answer to an item. */
  breadth.answersTo = async (index) => {
    const { subjects } = await who();
    const codes = await chunk(Math.floor(index / answers().chunk));
    const start = (index % answers().chunk) * subjects.length;
    return subjects.map((subject, k) => ({ ...subject, ...(decode(codes[start + k]) || { right: null, margin: null }) }));
  };

  /* What every run answered to an item at its end, in words. */
  breadth.said = async (index) => {
    if (!answers() || !answers().said) return {};
    const codes = await once(answers().names, async () => new Uint16Array(await breadth.inflate(answers().said)));
    const { runs } = await who();
    const items = breadth.payload.tables.items.rows;
    return Object.fromEntries(runs.map((run, k) => [run.run, codes[k * items + index] ? answers().names[codes[k * items + index] - 1] : null]));
  };

  /* How far somebody got every item right (null: not answered): a model or a run at its end, or a run at a step. */
  breadth.rightBy = async (model, run, step) => {
    const { ends, runs, subjects } = await who();
    const items = breadth.payload.tables.items.rows;
    if (step !== undefined && step !== null) {
      const place = subjects.findIndex((subject) => subject.run === run && subject.step === Number(step));
      if (place < 0) return null;
      const blocks = await Promise.all(answers().chunks.map((_, k) => chunk(k)));
      return Array.from({ length: items }, (_, i) => {
        const answer = decode(blocks[Math.floor(i / answers().chunk)][(i % answers().chunk) * subjects.length + place]);
        return answer && answer.right;
      });
    }
    const own = runs.map((entry, k) => [entry, k]).filter(([entry]) => (run ? entry.run === run : entry.model === model)).map(([, k]) => k);
    return Array.from({ length: items }, (_, i) => {
      const known = own.map((k) => decode(ends[k * items + i])).filter(Boolean);
      return known.length ? known.reduce((sum, answer) => sum + answer.right, 0) / known.length : null;
    });
  };
})();
