"use strict";
(() => {
  const root = document.documentElement;
  const button = document.querySelector(".theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // A page opened from disk may not be allowed to keep anything.
  const keep = (value) => { try { localStorage.setItem("propml-theme", value); } catch { /* stays for this visit */ } };
  const kept = () => { try { return localStorage.getItem("propml-theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const label = () => { button.textContent = isDark() ? "Light page" : "Dark page"; };
  if (["dark", "light"].includes(kept())) root.dataset.theme = kept();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    keep(root.dataset.theme);
    label();
  });
  dark.addEventListener("change", label);
  label();

  // A link to what is folded away unfolds it.
  const unfold = () => {
    for (let each = document.getElementById(location.hash.slice(1)); each; each = each.parentElement) {
      if (each.tagName === "DETAILS") each.open = true;
    }
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  // A table that goes on to the right says so.
  for (const box of document.querySelectorAll(".scroll")) {
    const look = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
  }

  // Sorting: numbers by value, words by alphabet, what is missing always last.
  const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort ?? cell.textContent.trim();
  };
  const compare = (a, b, sign) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const [x, y] = [Number(a), Number(b)];
    return sign * (Number.isNaN(x) || Number.isNaN(y) ? words.compare(a, b) : x - y);
  };
  for (const header of document.querySelectorAll("table.sortable thead th")) {
    header.querySelector("button").addEventListener("click", () => {
      const table = header.closest("table");
      const column = header.cellIndex;
      const first = header.dataset.first ?? "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = header.getAttribute("aria-sort") === first ? other : first;
      for (const each of table.tHead.rows[0].cells) each.setAttribute("aria-sort", each === header ? order : "none");
      const sign = order === "ascending" ? 1 : -1;
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => compare(value(a, column), value(b, column), sign)));
    });
  }
})();
