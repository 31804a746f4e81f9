// Faults of an open page, as sentences. Added before its own scripts, so that it sees who listens for clicks.
(() => {
  const SCROLLS = ".strip, .chips, .views, .scroll, .steps-scroll, .tabs, .op-rows, .dry-run .grid, svg"; // wider than the page on purpose
  const ACTS = "button, input:not([type=hidden]), textarea, select, a[href], summary, [role=button], [role=checkbox], [tabindex='0']";
  const PARTS = "label, [tabindex], .q-field, .q-field *, .q-uploader *, .q-dialog__backdrop"; // clicks there end in a named control
  const WHOLE = ".tile .label, .tile .beside, .tile-value, .entry-name, .entry .amount, .cell.num, .facts *, .jain, .btn, .tab, .segments button, .card-title";
  const WEIGHTS = [0.2126, 0.7152, 0.0722];

  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    if (kind === "click" && this instanceof Element) this.clicks = true;
    return listen.call(this, kind, ...rest);
  };
  document.addEventListener("focusin", (e) => { e.target.reached = true; });

  const all = (what) => [...document.querySelectorAll(what)].filter(seen);
  const seen = (el) => el.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && el.getClientRects().length > 0;
  const text = (el) => (el.textContent || "").trim();
  const about = (el) => `${el.tagName.toLowerCase()}.${(el.getAttribute("class") || "").trim().replace(/\s+/g, ".")} "${text(el).slice(0, 40)}"`;
  const few = (faults) => [...new Set(faults)].slice(0, 8);

  function clipped() {
    const wide = document.documentElement.scrollWidth - innerWidth;
    const out = all("body *").filter((el) => {
      const box = el.getBoundingClientRect();
      return box.width > 1 && (box.right > innerWidth + 1 || box.left < -1) && !el.closest(SCROLLS);
    });
    return few([...(wide > 0 ? [`the page is ${wide} px too wide`] : []), ...out.map((el) => `beyond the edge: ${about(el)}`)]);
  }

  // Numbers and the words on controls are read whole or not at all; names and ids may end in dots.
  function cut() {
    const short = all(WHOLE).filter((el) => el.scrollWidth > el.clientWidth + 1 && getComputedStyle(el).overflowX === "hidden");
    return few(short.map((el) => `cut: ${about(el)}`));
  }

  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  function rgba(css) {
    if (!known.has(css)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = css;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      known.set(css, [r, g, b, a / 255]);
    }
    return known.get(css);
  }
  const over = (layer, under) => under.map((value, i) => layer[i] * layer[3] + value * (1 - layer[3]));
  const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = (rgb) => rgb.reduce((sum, value, i) => sum + linear(value) * WEIGHTS[i], 0);

  // What an element's text stands on; null over a pattern, which no one colour says.
  function ground(el) {
    const layers = [];
    for (let at = el; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== "none") return null;
      layers.push(rgba(style.backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  }
  function contrast(el, css) {
    const under = ground(el);
    if (!under) return Infinity;
    const [high, low] = [luminance(over(rgba(css), under)), luminance(under)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  }

  // WCAG 2: every text, what was typed, and what a field suggests. What is switched off counts too: it says why.
  function faint(least) {
    const faults = [];
    const look = (el, css, words) => {
      const found = contrast(el, css);
      if (found < least) faults.push(`contrast ${found.toFixed(2)}: ${about(el)} ${words}`);
    };
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const el = node.parentElement;
      if (!node.data.trim() || el.closest("script, style, option, .nicegui-skip-link") || !seen(el)) continue;
      const style = getComputedStyle(el);
      look(el, el instanceof SVGElement ? style.fill : style.color, "");
    }
    for (const el of all("input, textarea")) {
      if (el.value) look(el, getComputedStyle(el).color, "typed");
      else if (el.placeholder) look(el, getComputedStyle(el, "::placeholder").color, el.placeholder);
    }
    return few(faults);
  }

  function named(el) {
    const ids = (el.getAttribute("aria-labelledby") || "").split(" ");
    return el.ariaLabel || text(el) || el.labels?.length || el.title || ids.some((id) => id && text(document.getElementById(id)));
  }
  function nameless() {
    const dumb = all(ACTS).filter((el) => !named(el)).map((el) => `no name: ${el.outerHTML.slice(0, 120)}`);
    const mute = all("body *").filter((el) => el.clicks && !el.matches(`${ACTS}, ${PARTS}`)).map((el) => `only for a pointer: ${about(el)}`);
    return few([...dumb, ...mute]);
  }

  // After the Tab key went round: what it did not come to. Of radio buttons and table rows one is enough; arrows reach the others.
  function unreached() {
    const top = all("[role=dialog], [role=alertdialog], dialog[open]").pop() || document.body;
    const left = all(ACTS).filter((el) => top.contains(el) && el.awaited && el.tabIndex >= 0 && !el.disabled && !el.reached && !el.closest(".nicegui-skip-link"));
    return few(left.map((el) => `Tab does not reach: ${about(el)}`));
  }

  // As often as Tab may have to be pressed: once for each place where it can stop, and for the page's own edge. What comes later is not asked for.
  function stops() {
    const found = all(`${ACTS}, [tabindex]`);
    for (const el of found) el.awaited = !el.disabled;
    return found.length + 4;
  }

  window.pageFaults = { clipped, cut, faint, nameless, unreached, stops };
})();
