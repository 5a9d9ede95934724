"use strict";
(() => {
  const form = document.querySelector("form.filter");
  const tables = [...document.querySelectorAll("table.sortable")];

  // --- Filtering: both tables follow one form. ---
  const chosen = ["algorithm", "environment", "machine", "device", "contestant"];
  function shown(row) {
    const wanted = form.elements;
    const text = wanted.text.value.trim().toLowerCase();
    return (
      chosen.every((name) => !wanted[name].value || row.dataset[name].split("\n").includes(wanted[name].value)) &&
      (!wanted.ranked.checked || row.dataset.ranked) &&
      (!wanted.unmarked.checked || row.dataset.unmarked) &&
      (!text || row.textContent.toLowerCase().includes(text))
    );
  }
  function filter() {
    for (const table of tables) {
      const rows = [...table.tBodies[0].rows];
      rows.forEach((row) => (row.hidden = !shown(row)));
      const left = rows.filter((row) => !row.hidden).length;
      table.closest("section").querySelector(".none").hidden = left > 0;
      document.querySelector(`[data-counts="${table.id}"]`).textContent = left === rows.length ? `(${left})` : `(${left} of ${rows.length})`;
    }
  }
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());

  // --- Sorting: what has no value comes last, whatever the direction. ---
  function compare(one, other) {
    if (one === other) return 0;
    const [a, b] = [Number(one), Number(other)];
    return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other, "en", { numeric: true }) : a - b;
  }
  function sort(table, heading, direction) {
    const column = heading.cellIndex;
    const value = (row) => row.cells[column].dataset.sort;
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => (value(a) === "") - (value(b) === "") || sign * compare(value(a), value(b)));
    table.tBodies[0].append(...rows);
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction);
  }
  for (const table of tables) {
    for (const heading of table.tHead.rows[0].cells) {
      heading.querySelector("button").addEventListener("click", () => {
        const now = heading.getAttribute("aria-sort");
        const other = { ascending: "descending", descending: "ascending" };
        sort(table, heading, now ? other[now] : heading.dataset.first);
      });
    }
  }
  filter();
})();
