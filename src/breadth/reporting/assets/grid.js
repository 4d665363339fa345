"use strict";
/* The first table: headings sort, arrow keys move between its cells (one of them is reached by Tab), and all rows on request. */
(() => {
  const cellsOf = (row) => [...row.querySelectorAll("td button")];

  const bind = () => {
    const table = document.getElementById("grid");
    if (!table || table.dataset.bound) return;
    table.dataset.bound = "yes";
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];

    const first = () => {
      for (const button of body.querySelectorAll("td button")) button.tabIndex = -1;
      const button = body.querySelector("td button");
      if (button) button.tabIndex = 0;
    };

    const sort = (index) => {
      const head = heads[index];
      const rising = index ? head.getAttribute("aria-sort") === "descending" : head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.setAttribute("aria-sort", other === head ? (rising ? "ascending" : "descending") : "none");
      const value = (row) => {
        const cell = row.cells[index];
        if (!index) return cell.textContent;
        return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
      };
      const rows = [...body.rows];
      rows.sort((one, two) => {
        const [a, b] = [value(one), value(two)];
        if (a === null || b === null) return (a === null) - (b === null);
        const order = index ? a - b : a.localeCompare(b, "en", { numeric: true });
        return rising ? order : -order;
      });
      const shown = [...body.rows].filter((row) => !row.classList.contains("more")).length;
      body.replaceChildren(...rows);
      rows.forEach((row, k) => row.classList.toggle("more", k >= shown));
      first();
    };

    heads.forEach((head, index) => head.querySelector("button").addEventListener("click", () => sort(index)));
    const all = document.getElementById("grid-all");
    if (all) {
      all.addEventListener("click", () => {
        const folded = table.classList.toggle("folded");
        all.setAttribute("aria-expanded", String(!folded));
        all.textContent = folded ? `Show all ${body.rows.length} rows` : "Show fewer rows";
      });
    }
    body.addEventListener("keydown", (event) => {
      const button = event.target.closest("td button");
      if (!button) return;
      const rows = [...body.rows].filter((row) => row.checkVisibility());
      const row = rows.indexOf(button.closest("tr"));
      const column = button.closest("td").cellIndex;
      const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      const move = moves[event.key];
      if (!move) return;
      const target = rows[row + move[0]] && rows[row + move[0]].cells[column + move[1]];
      const next = target && target.querySelector("button");
      if (!next) return;
      event.preventDefault();
      button.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    first();
  };

  breadth.bindGrid = bind;
})();
