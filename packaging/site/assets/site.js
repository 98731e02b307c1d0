// Search over window.searchIndex, the menu of small screens, and the switch between light and dark. Nothing is asked of another server.
const field = document.getElementById("search"), results = document.getElementById("results");
const root = document.querySelector("script[data-root]").dataset.root;
const escape = (text) => text.replace(/[&<>"]/g, (c) => "&#" + c.charCodeAt(0) + ";");

function score({ title, heading, text }, words) {
  let sum = 0;
  for (const word of words) {
    const here = (heading || title).toLowerCase(), at = text.toLowerCase().indexOf(word);
    if (at < 0 && !here.includes(word) && !title.toLowerCase().includes(word)) return 0;
    sum += 1 + (here.includes(word) ? 10 : 0) + (title.toLowerCase().includes(word) ? 4 : 0);
  }
  return sum;
}

function excerpt(text, words) {
  const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 60);
  let part = escape(text.slice(at, at + 160));
  for (const word of words) {
    part = part.replace(new RegExp(word.replace(/[^\p{L}\p{N}]/gu, "\\$&"), "gi"), "<mark>$&</mark>");
  }
  return (at ? "…" : "") + part + "…";
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
  results.hidden = !words.length;
  const found = window.searchIndex.map((entry) => [score(entry, words), entry]).filter(([n]) => n)
    .sort(([a], [b]) => b - a).slice(0, 15);
  results.innerHTML = found.map(([, { title, heading, link, text }]) => `<a href="${root + link}">${escape(title)}` +
    (heading ? " › " + escape(heading) : "") + `<small>${excerpt(text, words)}</small></a>`).join("") || "Nothing found.";
}

field.addEventListener("input", show);
field.addEventListener("keydown", (event) => {
  const links = [...results.querySelectorAll("a")], at = links.findIndex((a) => a.classList.contains("chosen"));
  if (event.key === "Escape") { field.value = ""; show(); }
  if (event.key === "Enter" && links.length) location.href = links[Math.max(at, 0)].href;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const next = Math.min(Math.max(at + (event.key === "ArrowDown" ? 1 : -1), 0), links.length - 1);
    links.forEach((a, i) => a.classList.toggle("chosen", i === next));
  }
});
results.addEventListener("click", () => { field.value = ""; show(); });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
});
document.getElementById("menu").addEventListener("click", ({ currentTarget: button }) => {
  button.setAttribute("aria-expanded", document.getElementById("pages").classList.toggle("open"));
});
document.getElementById("theme").addEventListener("click", () => {
  const set = document.documentElement.dataset, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  set.theme = (set.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  localStorage.setItem("theme", set.theme);
});
