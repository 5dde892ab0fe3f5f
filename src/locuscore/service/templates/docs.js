"use strict";
const JSON_TYPE = "application/json";
const byId = (id) => document.getElementById(id);

// The address without a user name and password, with which a browser would ask nothing.
const at = (path) => new URL(path, location.origin + location.pathname);

function made(name, text, attributes) {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  return element;
}

function headers(more) {
  const key = byId("key").value;
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

function pretty(text, type) {
  if (!type.startsWith(JSON_TYPE)) return text;
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch (error) { return text; }
}

async function send(path, method, area, output, status) {
  output.hidden = false;
  status.className = "status";
  status.textContent = "waiting";
  output.textContent = "";
  const start = performance.now();
  try {
    const options = { method, headers: headers(area ? { "Content-Type": JSON_TYPE } : {}) };
    if (area) options.body = area.value;
    const answer = await fetch(at(path.slice(1)), options);
    const text = await answer.text();
    const took = Math.round(performance.now() - start);
    status.textContent = `${answer.status} in ${took} ms, request ${answer.headers.get("x-request-id")}`;
    if (!answer.ok) status.className = "status bad";
    output.textContent = pretty(text, answer.headers.get("content-type") || "");
  } catch (error) {
    status.className = "status bad";
    status.textContent = "no answer";
    output.textContent = String(error);
  }
}

function route(path, method, about) {
  const box = made("details");
  const summary = made("summary");
  summary.append(made("b", method.toUpperCase()), made("code", path), ` ${about.summary}`);
  box.append(summary);
  if (about.description) box.append(made("p", about.description));
  const list = made("dl");
  for (const [code, one] of Object.entries(about.responses)) {
    list.append(made("dt", code), made("dd", one.description));
  }
  box.append(list);
  const id = path.replace(/\W/g, "-") + method;
  let area = null;
  const body = about.requestBody && about.requestBody.content[JSON_TYPE];
  if (body) {
    area = made("textarea", JSON.stringify(body.example || {}, null, 2), { id, spellcheck: "false" });
    box.append(made("label", "Body", { for: id }), area);
  }
  const button = made("button", "Send", { type: "button", "aria-label": `Send ${method} ${path}` });
  const status = made("p", "", { class: "status", role: "status" });
  const output = made("pre", "", { tabindex: "0", "aria-label": `Answer of ${path}` });
  output.hidden = true;
  button.addEventListener("click", () => send(path, method.toUpperCase(), area, output, status));
  box.append(button, status, output);
  if (path === "/score") box.open = true;
  return box;
}

function shown(found) {
  byId("version").textContent = `${found.info.title} ${found.info.version}, OpenAPI ${found.openapi}`;
  byId("card").textContent = found.info.description;
  const routes = byId("routes");
  routes.replaceChildren();
  for (const [path, methods] of Object.entries(found.paths)) {
    for (const [method, about] of Object.entries(methods)) routes.append(route(path, method, about));
  }
}

async function read() {
  let why;
  try {
    const answer = await fetch(at("openapi.json"), { headers: headers({}) });
    if (answer.ok) return shown(await answer.json());
    why = answer.status;
  } catch (error) { why = error; }
  byId("routes").replaceChildren(made("p", `The description cannot be read: ${why}.`));
}

// Once the routes are shown they stay, and with them what was written and answered.
byId("key").addEventListener("change", () => { if (!document.querySelector("details")) read(); });
read();
