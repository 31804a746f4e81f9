// The sign-in has no framework behind it: the theme that was chosen last in this browser, else the system's.
(() => {
  let name = "";
  try { name = localStorage.getItem("loradeck-theme") || ""; } catch { /* private mode */ }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    const dark = name ? name === "dark" : system.matches;
    document.body.classList.toggle("body--dark", dark);
    document.body.classList.toggle("body--light", !dark);
  };
  system.addEventListener("change", paint);
  document.addEventListener("DOMContentLoaded", paint);
})();
