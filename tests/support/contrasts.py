"""A script that finds text with too little contrast in a page: WCAG 2.1, 1.4.3."""

CONTRASTS = """
const rgb = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
const light = colour => {
  const [r, g, b] = colour.map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = element => {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return rgb(colour);
  }
  return [255, 255, 255];
};
const poor = [];
for (const element of document.querySelectorAll("body *")) {
  if (element.tagName === "title") continue;  // of a picture: shown by the browser, in its colours
  if (![...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const style = getComputedStyle(element);
  const paint = element instanceof SVGElement ? style.fill : style.color;
  const [a, b] = [light(rgb(paint)), light(behind(element))].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < 4.5) poor.push(`${element.tagName} ${element.textContent}: ${contrast}`);
}
return poor;
"""
"""The body of a function of JavaScript: a line for each text whose contrast is below 4.5."""
