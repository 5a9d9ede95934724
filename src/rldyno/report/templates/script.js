"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set();
  const views = new Map();

  // A chart's data come as rows, or as columns per contestant.
  function rowsOf(packed) {
    if (packed.rows) return packed.rows;
    const rows = packed.threshold === null ? [] : [{ threshold: packed.threshold }];
    packed.notes.forEach((note, i) => rows.push({ note, line: packed.notes.length - 1 - i }));
    rows.push(...(packed.beside ?? []));
    for (const [contestant, columns] of Object.entries(packed.bands)) {
      const { y, low, high, width } = columns;
      columns.x.forEach((x, i) => rows.push({ contestant, x, y: y[i], low: low[i], high: high[i], width }));
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

  // What is not folded is drawn before the reader gets there.
  const rest = places.filter((place) => !place.closest("details:not([open])")).slice(0, 20);
  const next = () => {
    const place = rest.shift();
    if (place) draw(place).then(() => setTimeout(next));
  };
  setTimeout(next, 50);

  // --- Folds: a link opens what hides its target, and paper has none. ---
  function reveal(target) {
    const own = target.querySelector(":scope > details.fold");
    for (let fold = own ?? target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  }
  const targetOf = (hash) => document.getElementById(hash.slice(1));
  function follow() {
    const target = targetOf(location.hash);
    if (!target) return;
    reveal(target);
    target.scrollIntoView();
    markCurrent(target);
  }

  // More charts than this would keep the browser from printing for minutes.
  const PRINTED = 200;
  let opened = null;
  function beforePrint() {
    if (opened) return;
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((fold) => (fold.open = true));
    places.slice(0, PRINTED).forEach(draw);
  }
  function afterPrint() {
    opened?.forEach((fold) => (fold.open = false));
    opened = null;
  }
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);
  const paper = matchMedia("print");
  const onPaper = () => (paper.matches ? beforePrint() : afterPrint());
  paper.addEventListener("change", onPaper);

  // --- Navigation: where the reader is. ---
  const menu = document.querySelector(".menu");
  const links = [...document.querySelectorAll("#contents a")].map((link) => ({ link, section: targetOf(link.hash) }));
  // A short section at the end of the page cannot reach the top: where a link led there, it is the current one.
  let chosen = null;
  function markCurrent(section) {
    chosen = section ?? chosen;
    const line = innerHeight * 0.3;
    const passed = links.filter(({ section }) => section.getBoundingClientRect().top <= line);
    const current = links.find(({ section }) => section === chosen) ?? passed.at(-1) ?? links[0];
    for (const { link } of links) {
      if (link === current.link) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    }
    menu.querySelector(".here").textContent = current.link.textContent;
    const list = current.link.closest("nav");
    const { top, bottom } = current.link.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) list.scrollTop += top - innerHeight / 2;
  }
  let asked = false;
  addEventListener("scroll", () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      markCurrent();
    });
  }, { passive: true });
  for (const moved of ["wheel", "touchmove", "keydown"]) addEventListener(moved, () => (chosen = null), { passive: true });

  function showMenu(open) {
    menu.setAttribute("aria-expanded", String(open));
  }
  menu.addEventListener("click", () => showMenu(menu.getAttribute("aria-expanded") === "false"));
  document.addEventListener("keydown", (event) => event.key === "Escape" && showMenu(false));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("nav")) showMenu(false);
    const link = event.target.closest('a[href^="#"]');
    const target = link && targetOf(link.hash);
    if (!target) return;
    showMenu(false);
    reveal(target);
    markCurrent(target);
  });
  addEventListener("hashchange", follow);
  markCurrent();
  follow();
  onPaper();

  // --- Which contestants the charts show. ---
  for (const chip of document.querySelectorAll(".legend button")) {
    chip.addEventListener("click", () => {
      const show = chip.getAttribute("aria-pressed") === "false";
      chip.setAttribute("aria-pressed", String(show));
      if (show) hidden.delete(chip.dataset.contestant);
      else hidden.add(chip.dataset.contestant);
      views.forEach((view) => view && view.signal("hidden", [...hidden]).runAsync());
    });
  }

  // --- The comparison: filtered and sorted. A row stays when its comparison is chosen and the text is in the row or in the comparison's name.
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
      if (here && shown + here < 100) reveal(place);
      shown += here;
      all += rows.length;
    }
    filter.querySelector("output").textContent = shown === all ? "" : `${shown} of ${all} rows`;
  }
  filter?.addEventListener("input", applyFilter);
  filter?.addEventListener("submit", (event) => event.preventDefault());

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
