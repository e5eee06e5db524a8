"use strict";
// Decisions as CSV, for spreadsheets and for propml/auditing/decisions.py; cells as in propml/csv_safety.py.
const csv = (() => {
  const COLUMNS = ["item", "label", "verdict", "decision", "decided_at", "note"];
  const LEADS = "=+-@\t\r\n＝＋－＠";
  const NUMBER = /^[+-]?[\p{Nd}.,]+(?:[eE][+-]?\p{Nd}+)?%?$/u;

  // A spreadsheet would run it. Apostrophes in front do not count, so that taking one away is exact.
  function isRisky(text) {
    const bare = text.replace(/^'+/, "");
    return bare !== "" && LEADS.includes(bare[0]) && !NUMBER.test(bare);
  }
  function toCell(text) {
    const safe = isRisky(text) ? `'${text}` : text;
    return /[",;\r\n\t]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }
  function fromCell(cell) {
    const text = cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell;
    return text.startsWith("'") && isRisky(text) ? text.slice(1) : text;
  }

  // The mark at the front tells a spreadsheet that this is UTF-8.
  const write = (rows) => `\ufeff${rows.map((cells) => `${cells.map(toCell).join(",")}\r\n`).join("")}`;

  function read(text) {
    const body = text.replace(/^\ufeff/, "");
    const header = body.split("\n", 1)[0];
    const often = (mark) => header.split(mark).length;
    const comma = [",", ";", "\t"].reduce((best, mark) => (often(mark) > often(best) ? mark : best));
    const cell = new RegExp(`("(?:[^"]|"")*"|[^${comma}\r\n]*)(${comma}|\r?\n|\r|$)`, "gy");
    const rows = [[]];
    for (let found = cell.exec(body); found; found = cell.exec(body)) {
      rows.at(-1).push(fromCell(found[1]));
      if (cell.lastIndex >= body.length) break;
      if (found[2] !== comma) rows.push([]);
    }
    return rows;
  }

  // What a row says of its label: 1 it belongs, -1 it does not, 0 nothing. Older files accept or reject the verdict.
  const WORDS = { keep: 1, drop: -1, accept: 1, reject: -1 };
  function belongs({ verdict, decision }) {
    const older = decision === "accept" || decision === "reject";
    return (WORDS[decision] ?? 0) * (older && (verdict === "drop" || verdict === "doubtful") ? -1 : 1);
  }
  function decisions(text) { // those that say something, or bear a note; null for a file of another kind
    const [header, ...rows] = read(text);
    if (COLUMNS.slice(0, 4).some((name) => !header.includes(name))) return null;
    const named = rows.map((row) => Object.fromEntries(header.map((name, column) => [name, row[column] ?? ""])));
    const told = named.map((row) => ({ ...row, note: row.note ?? "", belongs: belongs(row) }));
    return told.filter((row) => row.belongs || row.note);
  }

  return { COLUMNS, write, decisions };
})();
