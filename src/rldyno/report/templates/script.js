"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set();
  const views = new Map();

  // A chart's data come as rows, or as columns per contestant.
  function rowsOf(packed) {
    if (packed.rows) return packed.rows;
    const rows = packed.threshold === null ? [] : [{ threshold: packed.threshold }];
    for (const [contestant, columns] of Object.entries(packed.bands)) {
      columns.x.forEach((x, i) => rows.push({ contestant, x, y: columns.y[i], low: columns.low[i], high: columns.high[i] }));
    }
    return rows;
  }

  async function draw(place) {
    if (views.has(place)) return;
    views.set(place, null);
    const { chart, panel } = place.dataset;
    const rows = rowsOf(data.panels[panel][chart]);
    if (!rows.some((row) => row.contestant)) {
      place.innerHTML = "<p class='quiet'>Not recorded.</p>";
      return;
    }
    const spec = { ...data.charts[chart], datasets: { rows } };
    // Vega-Lite cannot fit a width beside a height in steps: count the steps here.
    if (spec.height.step) spec.height = spec.height.step * new Set(rows.map((row) => row.label ?? row.contestant)).size;
    // ast: expressions are interpreted, so that the page's policy can forbid eval.
    const options = { actions: false, renderer: "svg", ast: true };
    const drawn = await window.drawChart(place, spec, options);
    views.set(place, drawn.view);
    if (hidden.size) drawn.view.signal("hidden", [...hidden]).run();
  }

  // Charts are drawn when they come near the window: a page may hold thousands.
  const near = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
    { rootMargin: "600px" },
  );
  const places = [...document.querySelectorAll(".chart")];
  places.forEach((place) => near.observe(place));

  // A page of modest size is drawn whole, so that it prints whole.
  const isOpen = (place) => !place.closest("details:not([open])");
  if (places.length <= 200) {
    const rest = [...places].filter(isOpen);
    const next = () => {
      const place = rest.shift();
      if (place) draw(place).then(() => setTimeout(next));
    };
    setTimeout(next, 50);
  }

  for (const chip of document.querySelectorAll(".legend button")) {
    chip.addEventListener("click", () => {
      const show = chip.getAttribute("aria-pressed") === "false";
      chip.setAttribute("aria-pressed", String(show));
      if (show) hidden.delete(chip.dataset.contestant);
      else hidden.add(chip.dataset.contestant);
      views.forEach((view) => view && view.signal("hidden", [...hidden]).runAsync());
    });
  }

  // A row stays when its comparison is chosen and the text is in the row or in the comparison's name.
  const filter = document.querySelector("form.filter");
  const comparisons = [...document.querySelectorAll(".comparison")].map((place) => ({
    place,
    label: place.dataset.label.toLowerCase(),
    rows: [...place.querySelectorAll("tbody tr")].map((row) => ({ row, text: row.textContent.toLowerCase() })),
  }));
  function applyFilter() {
    const wanted = new FormData(filter);
    const words = wanted.get("text").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    let all = 0;
    for (const { place, label, rows } of comparisons) {
      const chosen = ["algorithm", "environment"].every((name) => !wanted.get(name) || wanted.get(name) === place.dataset[name]);
      let here = 0;
      for (const { row, text } of rows) {
        row.hidden = !(chosen && words.every((word) => text.includes(word) || label.includes(word)));
        here += !row.hidden;
      }
      place.hidden = here === 0;
      shown += here;
      all += rows.length;
    }
    filter.querySelector("output").textContent = shown === all ? "" : `${shown} of ${all} rows`;
  }
  filter.addEventListener("input", applyFilter);
  filter.addEventListener("submit", (event) => event.preventDefault());

  function sortBy(heading) {
    const table = heading.closest("table");
    const body = table.tBodies[0];
    const column = [...heading.parentElement.children].indexOf(heading);
    const ascending = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const key = (row) => row.children[column].dataset.sort;
    const compare = (a, b) =>
      column === 0 ? key(a).localeCompare(key(b)) : toNumber(key(a)) - toNumber(key(b)) || 0;
    const rows = [...body.rows].sort((a, b) => (ascending ? compare(a, b) : compare(b, a)));
    body.append(...rows);
  }
  const toNumber = (text) => (text === "inf" ? Infinity : Number(text));

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const heading of table.tHead.rows[0].cells) {
      heading.querySelector("button").addEventListener("click", () => sortBy(heading));
    }
  }
})();
