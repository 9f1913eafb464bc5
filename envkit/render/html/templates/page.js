"use strict";
// The page is whole without this: it adds the choice of a theme, sorting and filtering.

function theme() {
  const choice = document.getElementById("theme");
  choice.closest("[hidden]").hidden = false;
  choice.addEventListener("change", () => {
    if (choice.value) document.documentElement.dataset.theme = choice.value;
    else delete document.documentElement.dataset.theme;
  });
}

function value(row, column) {
  const cell = row.cells[column];
  const number = cell.dataset.sort;
  return number === undefined ? cell.textContent.trim() : Number(number);
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

function sort(table, head, column) {
  const descending = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => [value(row, column), row]);
  rows.sort((one, other) => (descending ? -1 : 1) * compare(one[0], other[0]));
  body.append(...rows.map((pair) => pair[1]));
}

function sortable(table) {
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, head, column));
  });
}

function filter(field) {
  const table = document.getElementById(field.dataset.filters);
  const output = document.querySelector(`output[for="${table.id}"]`);
  const rows = Array.from(table.tBodies[0].rows, (row) => [row, row.textContent.toLowerCase()]);
  field.closest("[hidden]").hidden = false;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [row, text] of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    output.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
}

function printing() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details:not([open])"));
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
}

theme();
document.querySelectorAll("main table").forEach(sortable);
document.querySelectorAll("[data-filters]").forEach(filter);
printing();
