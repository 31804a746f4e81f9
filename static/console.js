// What the server cannot do: theme, clock, keys, and the banner while the socket is gone.
(() => {
  const THEME = "loradeck-theme";
  const LOCAL = "loradeck-local-banner";
  const PAGES = { o: "/", a: "/adapters", p: "/playground", c: "/cold-warm", n: "/tenants", u: "/audit", s: "/settings", r: "/operations" };
  let leader = 0;
  let lostAt = 0;

  const typing = (e) => /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || e.target.isContentEditable;
  const dark = () => document.body.classList.contains("body--dark");
  const paint = (name) => window.Quasar?.Dark.set(name === "dark");
  const store = { get: (key) => { try { return localStorage.getItem(key); } catch { return null; } }, set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* private mode */ } } };

  function toggleTheme() {
    const name = dark() ? "light" : "dark";
    store.set(THEME, name);
    paint(name);
  }

  const deeds = {
    theme: toggleTheme,
    keys: () => document.getElementById("keys-dialog")?.showModal(),
    "dismiss-local": () => { store.set(LOCAL, "away"); show("local-banner", false); },
    reconnect: () => window.socket?.connect(),
    copy: (el) => navigator.clipboard?.writeText(el.dataset.text || ""),
  };

  function press(what) {
    [...document.querySelectorAll(what)].reverse().find((el) => el.offsetParent && !el.disabled)?.click();
  }

  function show(id, visible) {
    const el = document.getElementById(id);
    if (el) el.hidden = !visible;
  }

  function tick() {
    const clock = document.getElementById("clock");
    if (clock) {
      const now = new Date(Date.now() + Number(clock.dataset.offset) * 1000).toISOString().slice(11, 19);
      clock.textContent = `${now} ${clock.dataset.zone}`;
      clock.title = new Date().toISOString().slice(0, 19).replace("T", " ") + " UTC";
    }
    if (store.get(LOCAL) === "away") show("local-banner", false);
    notice();
  }

  // The framework marks its own popup when the socket goes and comes back; ours says more and covers nothing.
  function notice() {
    const lost = document.getElementById("popup")?.ariaHidden === "false";
    if (lost && !lostAt) lostAt = Date.now();
    if (!lost) lostAt = 0;
    show("lost-banner", lost);
    const words = document.getElementById("lost-text");
    if (lost && words) words.textContent = `Numbers are from ${Math.round((Date.now() - lostAt) / 1000)} s ago. What you typed stays.`;
  }

  document.addEventListener("click", (e) => {
    const el = e.target.closest("[data-do]");
    if (el) deeds[el.dataset.do]?.(el);
  });

  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && !document.querySelector("dialog[open]")) return press("[data-esc]");
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) return press("[data-run]");
    if (typing(e) || e.ctrlKey || e.metaKey || e.altKey) return;
    if (Date.now() - leader < 1000 && PAGES[e.key]) return location.assign(PAGES[e.key]);
    leader = e.key === "g" ? Date.now() : 0;
    if (e.key === "/") { const find = document.querySelector(".find input"); if (find) { e.preventDefault(); find.focus(); } }
    if (e.key === "t") toggleTheme();
    if (e.key === "?") deeds.keys();
  });

  function settle() {
    const name = store.get(THEME);
    if (window.Quasar && document.querySelector(".shell")) {
      if (name) paint(name);
      tick();
      new MutationObserver(notice).observe(document.getElementById("popup"), { attributes: true });
    } else setTimeout(settle, 30);
  }
  window.loradeck = { typing };
  document.addEventListener("DOMContentLoaded", settle);
  setInterval(tick, 1000);
})();
