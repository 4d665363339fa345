"use strict";
/* The live page: polls progress every two seconds and fetches the analysis again when there is a new one. */
(() => {
  const config = JSON.parse(document.getElementById("live-config").textContent);
  let seen = "";
  let analysis = config.analysis;

  const text = (id, words) => { document.getElementById(id).textContent = words; };
  const time = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`);

  const showRuns = (runs) => {
    const body = document.querySelector("#live-runs tbody");
    body.replaceChildren(...runs.map((run) => {
      const line = document.createElement("tr");
      const cells = [run.run, run.planned ? `${run.done} of ${run.planned}` : run.done, run.step, run.loss === null || run.loss === undefined ? "" : Number(run.loss.toPrecision(3)), run.items_per_second ? Math.round(run.items_per_second) : "", run.state];
      for (const value of cells) {
        const cell = document.createElement("td");
        cell.textContent = value === null || value === undefined ? "" : value;
        line.append(cell);
      }
      return line;
    }));
  };

  const columns = (rows) => {
    const names = Object.keys(breadth.payload.tables.trajectories ? breadth.payload.tables.trajectories.columns : rows[0]);
    return { rows: rows.length, columns: Object.fromEntries(names.map((name) => [name, rows.map((row) => (row[name] === undefined ? null : row[name]))])) };
  };

  const renew = async () => {
    const [main, data] = await Promise.all([fetch(`${config.base}/main.html`), fetch(`${config.base}/data.json`)]);
    if (!main.ok || !data.ok) return;
    const html = await main.text();
    const open = [...document.querySelectorAll("main details[open]")].map((entry) => entry.querySelector("summary").textContent.split("(")[0]);
    const top = window.scrollY;
    document.getElementById("main").innerHTML = html;
    for (const entry of document.querySelectorAll("main details")) if (open.includes(entry.querySelector("summary").textContent.split("(")[0])) entry.open = true;
    breadth.start(await data.json());
    window.scrollTo(0, top);
  };

  const ask = async () => {
    try {
      const answer = await fetch(`${config.base}/state.json?seen=${seen || analysis}`);
      const state = await answer.json();
      if (!answer.ok) {
        text("live-text", `${state.error}. The page shows the last known state.`);
        document.getElementById("live-dot").classList.remove("on");
        setTimeout(ask, 2000);
        return;
      }
      const cluster = state.cluster;
      const seconds = (cluster && cluster.seconds_left) || state.seconds_left;
      const left = seconds ? `, about ${time(seconds)} left` : "";
      const workers = cluster
        ? `. ${cluster.workers} workers, ${cluster.busy} busy; ${Math.round(cluster.units_per_minute)} units per minute; waiting: ${cluster.waiting_items} items, ${cluster.runs_waiting} runs` +
          `${cluster.retries ? `; ${cluster.retries} retried` : ""}${cluster.set_aside ? `; ${cluster.set_aside} checkpoints set aside` : ""}`
        : "";
      text("live-text", `${state.done} of ${state.planned} checkpoints${state.finished ? ": finished" : state.active || cluster ? left : "; no run has written recently"}${workers}${state.failure ? `. The newest analysis failed: ${state.failure}` : ""}`);
      document.getElementById("live-dot").classList.toggle("on", state.active && !state.finished);
      const bar = document.getElementById("live-bar");
      bar.max = Math.max(1, state.planned);
      bar.value = state.done;
      showRuns(state.runs);
      if (state.analysis && state.analysis !== analysis) {
        analysis = state.analysis;
        seen = state.analysis;
        await renew();
      }
      if (state.fingerprint !== seen && state.fingerprint !== analysis && state.trajectories && state.trajectories.length) {
        seen = state.fingerprint;
        breadth.payload.tables.trajectories = columns(state.trajectories);
        if ("trajectories" in breadth.drawn) await breadth.draw("trajectories");
      }
    } catch (error) {
      text("live-text", `No answer from breadth view (${error.message}); the page shows the last known state.`);
      document.getElementById("live-dot").classList.remove("on");
    }
    setTimeout(ask, 2000);
  };
  ask();
})();
