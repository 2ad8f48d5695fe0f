// Moves the threshold and sorts the tables of labels. Without it the report only loses these two.
for (const box of document.querySelectorAll(".slider")) {
  const input = box.querySelector("input"), output = box.querySelector("output");
  const places = JSON.parse(input.dataset.places), documents = Number(input.dataset.documents);
  const say = () => {
    const [threshold, sent, wrong, low] = places[input.value];
    output.textContent = `From ${threshold.toFixed(4)} up, ${sent.toLocaleString("en")} of ` +
      `${documents.toLocaleString("en")} go out. ${wrong.toLocaleString("en")} of these are wrong here: ` +
      `${(100 * (1 - wrong / sent)).toFixed(1)} of 100 are right, at least ${(100 * low).toFixed(1)} ` +
      `if no threshold is chosen by its figures. People read ${(documents - sent).toLocaleString("en")}.`;
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", say);
  box.hidden = false;
  say();
}
const value = (row, column) => row.cells[column].textContent.trim();
const number = text => parseFloat(text.replaceAll(",", ""));
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const falling = column === 0 ? now === "ascending" : now !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [one, two] = [value(a, column), value(b, column)];
        if (column === 0) return one.localeCompare(two);
        return (isNaN(number(one)) ? -1 : number(one)) - (isNaN(number(two)) ? -1 : number(two));
      });
      table.tBodies[0].append(...(falling ? rows.reverse() : rows));
    });
  });
}
