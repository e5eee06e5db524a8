// What is wrong with a page for people who read, point or listen: the main rules of WCAG. Controls are to have so many
// pixels in width and height at least.
(smallest) => {
  const faults = [];
  const shown = (each) => each.checkVisibility({ visibilityProperty: true }) && each.getBoundingClientRect().width > 0;
  const open = document.querySelector("dialog[open]");
  const all = [...(open ?? document.body).querySelectorAll("*")].filter((each) => shown(each) && !each.matches("script"));
  const blame = (each, why) => faults.push(`${why}: ${each.outerHTML.slice(0, 90)}`);

  // Colours as numbers, however they are written; what shines through is mixed with what lies behind.
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const parse = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below, opacity = 1) => top.slice(0, 3).map((c, k) => c * top[3] * opacity + below[k] * (1 - top[3] * opacity));
  const behind = (each) => {
    const chain = [];
    for (let at = each; at; at = at.parentElement) chain.unshift(parse(getComputedStyle(at).backgroundColor));
    return chain.reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = (color) => color.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  for (const each of all) {
    const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || each.closest(":disabled, .toast") || each.tagName === "OPTION") continue;
    let opacity = 1;
    for (let at = each; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const ground = behind(each);
    const [a, b] = [light(over(parse(getComputedStyle(each).color), ground, opacity)), light(ground)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) blame(each, `contrast ${contrast.toFixed(2)}`);
  }

  const named = (each) => each.ariaLabel || (each.labels?.length && each.labels[0].innerText.trim()) || each.innerText?.trim()
    || document.getElementById(each.getAttribute("aria-labelledby"))?.textContent;
  for (const each of all.filter((one) => one.matches("button, input, select, dialog, section, [role], progress, summary"))) {
    const needless = ["alert", "status", "list"].includes(each.getAttribute("role"));
    if (!needless && !named(each)) blame(each, "no name");
  }
  for (const each of all.filter((one) => one.matches("img"))) if (!each.hasAttribute("alt")) blame(each, "no alt");
  for (const each of all.filter((one) => one.matches("[aria-pressed]"))) {
    if (!["true", "false"].includes(each.getAttribute("aria-pressed"))) blame(each, "neither pressed nor not");
  }
  for (const each of all.filter((one) => one.matches("[role=list] > *"))) if (each.role !== "listitem") blame(each, "no list item");
  for (const each of all.filter((one) => one.matches("button, select, input, summary, [role=button]"))) {
    const { width, height } = each.getBoundingClientRect();
    if (Math.min(width, height) < smallest - 0.5) blame(each, `${Math.round(width)} by ${Math.round(height)} px`);
    if (each.querySelector("button, a, input, select")) blame(each, "a control in a control");
  }
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  if (new Set(ids).size < ids.length) faults.push("an id stands twice");
  if (!document.documentElement.lang || !document.title) faults.push("no language or no title");
  if (document.querySelectorAll("main").length !== 1 || document.querySelectorAll("h1").length !== 1) faults.push("not one main and one h1");
  if (document.querySelector("meta[name=viewport]").content.includes("scalable")) faults.push("cannot be enlarged");
  return faults;
}
