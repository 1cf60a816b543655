'use strict';
// All text goes into the page by textContent: what peers and configurations are called is never markup.

const $ = (id) => document.getElementById(id);
const WINDOWS = [60, 120, 180, 300, 480, 720, 900].map((s) => s * 1000);
// Upper bounds of delay / T for the colours c0 to c5.
const BOUNDS = [0.5, 1, 1.5, 2, 4, Infinity];
const BOUND_NAMES = ['< ½', '½ – 1', '1 – 1½', '1½ – 2', '2 – 4', '> 4'];

let state = fresh(null);
let since = 0;
let serverGone = null;
let inVain = 0;

function fresh(id) {
  return { id, data: null, seconds: [], at: new Map(), modes: new Map(), paths: new Map(), clock: 0 };
}

// --- numbers as people read them ---

function time(ns) {
  if (ns === null || ns === undefined) return '–';
  const size = Math.abs(ns);
  if (size < 1000) return `${Math.round(ns)} ns`;
  const [scale, unit] = size < 1e6 ? [1e3, 'µs'] : size < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  return `${digits(ns / scale)} ${unit}`;
}
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
}
function lasting(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  return s < 120 ? `${s} s` : s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}
// A place on an axis of time: minutes and seconds.
function ago(ms) {
  const s = Math.round(ms / 1000);
  return `−${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
}
const percent = (share) => (share > 0 && share < 0.01 ? '< 1%' : `${Math.round(100 * share)}%`);
// Times of the server as times of day here.
const clock = (ms) => new Date(state.clock + ms).toLocaleTimeString([], { hour12: false });
const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

function put(parent, tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  parent.append(made);
  return made;
}

// --- data ---

async function ask() {
  const answer = await fetch(`/data.json?since=${since}`, { cache: 'no-store', signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(await answer.text());
  const data = await answer.json();
  if (data.id !== state.id) {
    // Another server's numbers count anew.
    const asked = since;
    state = fresh(data.id);
    since = 0;
    if (asked > 0) return ask();
  }
  take(data);
  return data.more ? ask() : undefined;
}

function take(data) {
  state.clock = Date.now() - data.now_ms;
  state.data = data;
  since = data.next;
  state.seconds.push(...data.seconds);
  state.seconds = state.seconds.filter((s) => s.n >= data.oldest);
  state.at = new Map(state.seconds.map((s) => [s.n, s.at_ms]));
  state.modes = new Map(state.seconds.map((s) => [s.n, s.mode]));
  const known = new Map((data.agent?.paths ?? []).map((p) => [p.peer, p]));
  const paths = new Map();
  for (const { peer, delays, by_mode } of data.paths) {
    const before = state.paths.get(peer)?.delays ?? [];
    const made = delays.map(([n, count, p50, p99, above, held, t]) => ({ n, count, p50, p99, above, held, t }));
    paths.set(peer, { peer, by_mode, about: known.get(peer), delays: before.concat(made).filter((d) => d.n >= data.oldest) });
  }
  state.paths = paths;
}

async function tick() {
  try {
    // A page that nobody sees catches up later.
    if (!document.hidden) await ask();
    serverGone = null;
    inVain = 0;
  } catch {
    inVain += 1;
    serverGone ??= Date.now();
  }
  if (!document.hidden) draw();
  setTimeout(tick, 1000);
}

// --- the answers ---

function answer(id, verdict, good, text) {
  const into = $(id);
  into.replaceChildren();
  put(into, 'b', verdict, good === null ? '' : good ? 'good' : 'bad');
  into.append(` ${text}`);
}

function drawAnswers() {
  const { data } = state;
  const trouble = $('trouble');
  const agentGone = data?.gone;
  let said = '';
  if (inVain > 1) {
    const at = new Date(serverGone).toLocaleTimeString([], { hour12: false });
    said = `onrampctl dashboard has not answered since ${at}: what is shown is from before.`;
  } else if (agentGone) {
    const before = data.agent ? ' What is shown is from before.' : '';
    said = `The agent has not answered since ${clock(agentGone.since_ms)} (${lasting(data.now_ms - agentGone.since_ms)}): ${agentGone.why}.${before}`;
  }
  if (trouble.textContent !== said) trouble.textContent = said;
  trouble.hidden = said === '';
  const agent = data?.agent;
  if (!agent) return;
  if (said) {
    document.title = 'On-Ramp · no answer';
    answer('synchronised', 'Not known:', null, 'the agent does not answer.');
    answer('holding', 'Not known:', null, 'the agent does not answer. Packets of an agent that has ended are not held.');
    return;
  }
  $('version').textContent = `${agent.version} · up ${lasting(agent.uptime_ns / 1e6)} · T ${time(agent.threshold_ns)}`;
  drawSynchronised(agent);
  const isHolding = drawHolding(agent);
  document.title = `On-Ramp · ${agent.clock.known ? 'synchronised' : 'not synchronised'} · ${isHolding ? 'holding' : 'not holding'}`;
  const problems = $('problems');
  problems.replaceChildren();
  if (!agent.problems.length) {
    put(problems, 'b', 'None.', 'good');
  } else {
    put(problems, 'b', agent.problems.length > 1 ? `${agent.problems.length}, the latest last:` : '1:', 'bad');
    const list = put(problems, 'ul');
    for (const problem of agent.problems) put(list, 'li', problem);
  }
}

function drawSynchronised(agent) {
  const { clock: c, peers, peers_known: known } = agent;
  const peersText = `${known} of ${plural(peers, 'peer has a clock', 'peers have clocks')} that can be compared with ours.`;
  if (c.source !== 'fleet') {
    const how = c.source === 'shared' ? 'all peers run by one clock' : "the peers' offsets are given";
    answer('synchronised', 'By configuration.', null, `It says that ${how}; nothing checks it. ${peersText}`);
  } else if (c.known) {
    const by = c.coordinator ? `by coordinator ${c.coordinator}` : 'but no coordinator is connected, and the uncertainty grows';
    answer('synchronised', 'Yes.', true, `The clock is within ${time(c.uncertainty_ns)} (1σ) of the fleet's time, ${by}. ${peersText}`);
  } else {
    const by = c.coordinator ? `coordinator ${c.coordinator}` : 'no coordinator is connected';
    answer('synchronised', 'No.', false, `Nothing is measured or held: ${c.reason} (${by}).`);
  }
}

function drawHolding(agent) {
  const packets = mean('waited');
  if (agent.mode !== 'enforce') {
    const would = packets ? `Enforcing would have had about ${rate(packets)} packets/s wait in the last 10 s.` : 'Enforcing would have held nothing in the last 10 s.';
    const why = agent.policy?.why || agent.gate.why;
    answer('holding', 'No.', null, `The agent observes${why ? `: ${why}` : ''}. ${would}`);
    return false;
  }
  const shares = [...state.paths.values()].map((p) => [latest(p)?.held ?? 0, p.peer]).sort((a, b) => b[0] - a[0]);
  const most = shares[0]?.[0] > 0 ? ` The path held most is the one to ${shares[0][1]}: packets waited ${percent(shares[0][0])} of the last 5 s.` : ' No packet had to wait in the last 5 s.';
  const not = agent.not_held ? ` On ${plural(agent.not_held, 'path', 'paths')} nothing is held, since it was in vain.` : '';
  if (agent.without_gate.length) {
    answer('holding', 'No.', false, `The mode is enforce, but ${agent.without_gate.join(', ')} has no gate.`);
    return false;
  }
  answer('holding', 'Yes.', true, `Enforcing, gate ${agent.gate.kind}: ${agent.flows.held_now} of ${plural(agent.flows.count, 'flow', 'flows')} held at this moment.${most}${not}`);
  return true;
}

// --- the heat map ---

const shown = () => document.querySelector('input[name=shown]:checked').value;
const colourOf = (ratio) => BOUNDS.findIndex((bound) => ratio < bound || bound === Infinity);
const latest = (path) => {
  const last = path.delays.at(-1);
  // One that stopped is not told of as if it were now.
  return last && last.n + 3 >= since ? last : undefined;
};

function span() {
  const now = state.data.now_ms;
  const age = now - (state.seconds[0]?.at_ms ?? now);
  return { now, width: WINDOWS.find((w) => w >= age) ?? WINDOWS.at(-1) };
}

function surface(canvas) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function drawScale() {
  const list = $('scale');
  list.replaceChildren();
  BOUND_NAMES.forEach((name, i) => put(list, 'li', name, `c${i}`));
}

function aboveT(path) {
  const of = shown();
  const all = path.delays.filter((d) => d[of] !== null);
  return [all.filter((d) => d[of] > d.t).length, all.length];
}

const rowOf = new Map();

function drawHeat() {
  const list = $('rows');
  const paths = [...state.paths.values()].filter((p) => p.delays.length);
  $('no-paths').hidden = paths.length > 0;
  $('heat').hidden = paths.length === 0;
  for (const [peer, row] of rowOf) {
    if (!paths.some((p) => p.peer === peer)) {
      row.remove();
      rowOf.delete(peer);
    }
  }
  for (const path of paths) if (!rowOf.has(path.peer)) makeRow(path.peer);
  // Rows stay where they are while somebody points at them or moves among them.
  if (!list.matches(':hover, :focus-within') || list.children.length !== paths.length) {
    const sorted = paths.map((p) => [aboveT(p)[0], p.peer]).sort((a, b) => b[0] - a[0] || a[1].localeCompare(b[1], undefined, { numeric: true }));
    sorted.forEach(([, peer], i) => {
      const row = rowOf.get(peer);
      if (list.children[i] !== row) list.insertBefore(row, list.children[i] ?? null);
    });
  }
  const { width } = span();
  const axis = $('axis');
  axis.replaceChildren();
  for (const part of [1, 2 / 3, 1 / 3]) put(axis, 'span', ago(part * width));
  put(axis, 'span', 'now');
  const colours = BOUNDS.map((_, i) => colour(`--c${i}`));
  for (const path of paths) drawRow(path, colours);
}

function makeRow(peer) {
  const item = document.createElement('li');
  const link = put(item, 'a', undefined, 'row');
  link.href = `#path=${encodeURIComponent(peer)}`;
  // Where it is too long, its beginning is left out: that is what peers have in common.
  const name = put(link, 'span', undefined, 'peer');
  name.title = peer;
  put(name, 'bdi', peer).dir = 'ltr';
  const canvas = put(link, 'canvas');
  put(link, 'span', '', 'number');
  put(link, 'span', '', 'number');
  canvas.addEventListener('mousemove', (event) => tell(peer, event.offsetX / canvas.clientWidth));
  link.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const { delays } = state.paths.get(peer);
    const at = delays.findIndex((d) => d.n === Number(link.dataset.n));
    const next = delays[at < 0 ? delays.length - 1 : Math.min(Math.max(at + step, 0), delays.length - 1)];
    link.dataset.n = next.n;
    $('hover').textContent = numbers(peer, next);
  });
  rowOf.set(peer, item);
  $('rows').append(item);
}

function drawRow(path, colours) {
  const link = rowOf.get(path.peer).firstChild;
  const [, canvas, now, above] = link.children;
  const { pen, width, height } = surface(canvas);
  const of = shown();
  const { now: end, width: window } = span();
  const cells = path.delays.filter((d) => d[of] !== null).map((d) => [colourOf(d[of] / d.t), state.at.get(d.n)]);
  // Where several seconds share a pixel, the worst one is seen.
  cells.sort((a, b) => a[0] - b[0]);
  const second = (1000 / window) * width;
  for (const [c, at] of cells) {
    pen.fillStyle = colours[c];
    pen.fillRect(width - ((end - at + 1000) / window) * width, 0, Math.max(1, second + 0.3), height);
  }
  const last = latest(path);
  const [worse, all] = aboveT(path);
  now.textContent = time(last?.p99);
  above.textContent = all ? percent(worse / all) : '–';
  const isOpen = path.peer === selected();
  if (isOpen) link.setAttribute('aria-current', 'true');
  else link.removeAttribute('aria-current');
  link.setAttribute('aria-label', `Path to ${path.peer}: p99 now ${time(last?.p99)}, T ${time(path.delays.at(-1).t)}, ${of} above T in ${above.textContent} of the seconds; opens its history`);
}

// Observing, nothing waits: the agent tells of what would have.
const waited = (d) => `packets ${state.modes.get(d.n) === 'enforce' ? 'waited' : 'would have waited'} ${percent(d.held)} of the time`;

function numbers(peer, d) {
  return `${peer} · ${clock(state.at.get(d.n))} · ${plural(d.count, 'OR-ACK', 'OR-ACKs')} · p50 ${time(d.p50)} · p99 ${time(d.p99)} · T ${time(d.t)} · ${percent(d.above)} of them above T · ${waited(d)}`;
}

function tell(peer, part) {
  const path = state.paths.get(peer);
  if (!path) return;
  const { now, width } = span();
  const at = now - (1 - part) * width;
  const near = path.delays.find((d) => state.at.get(d.n) >= at && state.at.get(d.n) - at < 1500);
  $('hover').textContent = near ? numbers(peer, near) : `${peer} · ${clock(at)} · no OR-ACKs`;
}

// --- a path's history ---

function selected() {
  if (!location.hash.startsWith('#path=')) return null;
  try {
    return decodeURIComponent(location.hash.slice(6));
  } catch {
    return null;
  }
}

function drawHistory() {
  const peer = selected();
  $('history').hidden = peer === null;
  if (peer === null) return;
  const path = state.paths.get(peer);
  $('history-title').textContent = `History of the path to ${peer}`;
  $('charts').hidden = !path?.delays.length;
  if (!path?.delays.length) {
    $('history-text').textContent = 'No delays of this path are remembered.';
    return;
  }
  const last = path.delays.at(-1);
  const not = path.about?.not_held ? ` Nothing is held on it: ${path.about.not_held}.` : '';
  const least = path.about ? ` Least ${time(path.about.min_ns)}, T ${time(path.about.threshold_ns)}.` : '';
  $('history-text').textContent = `Last OR-ACKs at ${clock(state.at.get(last.n))}: p50 ${time(last.p50)}, p99 ${time(last.p99)}, ${waited(last)}.${least}${not}`;
  $('held-title').textContent = state.modes.get(last.n) === 'enforce' ? 'Share of time in which packets waited' : 'Share of time in which packets would have waited';
  drawOwd(path);
  drawHeld(path);
  const body = $('numbers').tBodies[0];
  body.replaceChildren();
  for (const d of path.delays.slice(-30).reverse()) {
    const row = put(body, 'tr');
    [clock(state.at.get(d.n)), d.count, time(d.p50), time(d.p99), time(d.t), percent(d.above), percent(d.held)].forEach((text) => put(row, 'td', text));
  }
}

const LEFT = 64;
const BOTTOM = 18;

function frame(canvas, ticks, y) {
  const s = surface(canvas);
  const { pen, width, height } = s;
  const { now, width: window } = span();
  pen.font = '12px system-ui, sans-serif';
  pen.lineWidth = 1;
  for (const [value, name] of ticks) {
    const at = Math.round(y(value, height)) + 0.5;
    pen.strokeStyle = colour('--line');
    pen.beginPath();
    pen.moveTo(LEFT, at);
    pen.lineTo(width, at);
    pen.stroke();
    pen.fillStyle = colour('--faint');
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    pen.fillText(name, LEFT - 6, at);
  }
  pen.textBaseline = 'bottom';
  for (let i = 0; i <= 4; i += 1) {
    pen.textAlign = i === 0 ? 'left' : i === 4 ? 'right' : 'center';
    const name = i === 4 ? 'now' : ago((1 - i / 4) * window);
    pen.fillText(name, LEFT + (i / 4) * (width - LEFT), height);
  }
  const x = (n) => width - ((now - state.at.get(n)) / window) * (width - LEFT);
  return { ...s, x };
}

// Runs of seconds that follow each other: where there were no OR-ACKs, or no agent, the line is broken.
function runs(delays) {
  const found = [];
  for (const d of delays) {
    const run = found.at(-1);
    if (run && d.n - run.at(-1).n <= 2) run.push(d);
    else found.push([d]);
  }
  return found;
}

function drawOwd(path) {
  const delays = path.delays.filter((d) => d.p99 !== null);
  const values = delays.flatMap((d) => [d.p50, d.p99, d.t]).map((v) => Math.max(v, 100));
  // At least a decade, so that noise does not look like more.
  const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [1e4, 1e5];
  const wider = Math.max(1.3, Math.sqrt(10 / (most / least)));
  const [low, high] = [least / wider, most * wider];
  const rounds = [];
  for (let decade = 100; decade <= 1e12; decade *= 10) rounds.push(decade, 2 * decade, 5 * decade);
  let ticks = rounds.filter((r) => r >= low && r <= high);
  if (ticks.length > 8) ticks = ticks.filter((r) => /^1/.test(String(r)));
  const y = (v, height) => 4 + (1 - Math.log(Math.max(v, low) / low) / Math.log(high / low)) * (height - BOTTOM - 8);
  const { pen, height, x } = frame($('owd'), ticks.map((t) => [t, time(t).replace(/\.0+ /, ' ')]), y);
  const line = (of, name, dash) => {
    pen.strokeStyle = colour(name);
    pen.fillStyle = pen.strokeStyle;
    pen.lineWidth = dash.length ? 1.5 : 2;
    pen.setLineDash(dash);
    for (const run of runs(delays)) {
      pen.beginPath();
      run.forEach((d) => pen.lineTo(x(d.n), y(d[of], height)));
      pen.stroke();
      if (run.length === 1) pen.fillRect(x(run[0].n) - 1, y(run[0][of], height) - 1, 2, 2);
    }
    pen.setLineDash([]);
  };
  line('t', '--t', [6, 4]);
  line('p99', '--p99', []);
  line('p50', '--p50', []);
}

function drawHeld(path) {
  const y = (v, height) => 8 + (1 - v) * (height - BOTTOM - 12);
  const { pen, height, x } = frame($('held'), [[0, '0%'], [0.5, '50%'], [1, '100%']], y);
  pen.fillStyle = colour('--p99');
  for (const run of runs(path.delays)) {
    pen.beginPath();
    pen.moveTo(x(run[0].n), y(0, height));
    run.forEach((d) => pen.lineTo(x(d.n), y(d.held, height)));
    pen.lineTo(x(run.at(-1).n), y(0, height));
    pen.fill();
  }
}

// --- who is congested with whom ---

function drawFleet() {
  const { fleet, agent } = state.data;
  const text = $('fleet-text');
  $('fleet').hidden = !fleet.hosts?.length || !agent;
  if (!fleet.hosts) {
    text.textContent = `Not known: ${fleet.why}.`;
    return;
  }
  const t = agent?.threshold_ns;
  const many = fleet.hosts.length > 12;
  const of = document.querySelector('input[name=over]:checked').value === 'p50' ? 3 : 4;
  const left = fleet.left_out ? ` ${plural(fleet.left_out, 'further host has', 'further hosts have')} smaller delays.` : '';
  const troubles = fleet.troubles.map(([host, what]) => `${host}: ${what}`).join('; ');
  text.textContent = `${plural(fleet.hosts.length, 'host', 'hosts')}, by probes of the coordinator's last window: delay over the least one, rows from, columns to. Colours: in relation to this host's T (${time(t)}).${left}${troubles ? ` Not synchronised: ${troubles}.` : ''}`;
  if (!agent) return;
  const table = $('matrix');
  table.replaceChildren();
  table.className = many ? 'many' : '';
  const head = put(put(table, 'thead'), 'tr');
  put(head, 'td');
  for (const host of fleet.hosts) {
    const th = put(head, 'th');
    th.scope = 'col';
    put(th, 'span', host);
  }
  const cells = new Map(fleet.delays.map((d) => [`${d[0]} ${d[1]}`, d]));
  const body = put(table, 'tbody');
  fleet.hosts.forEach((host, from) => {
    const row = put(body, 'tr');
    put(row, 'th', host).scope = 'row';
    fleet.hosts.forEach((other, to) => {
      const d = cells.get(`${from} ${to}`);
      if (from === to) put(row, 'td', '', 'self');
      else if (!d) put(row, 'td', '–', 'none').title = `${host} → ${other}: no probes`;
      else {
        const over = Math.max(0, d[of] - d[2]);
        const cell = put(row, 'td', time(over), `c${colourOf(over / t)}`);
        cell.title = `${host} → ${other}: least ${time(d[2])}, p50 ${time(d[3])}, p99 ${time(d[4])}`;
      }
    });
  });
}

// --- rates ---

const RATES = [
  ['held_ns', 'Flows held, on average', (v) => digits(v / 1e9)],
  ['holds', 'Pauses of flows', rate],
  ['waited', 'Packets that waited', rate],
  ['sent_bytes', 'Sent to peers', bits],
  ['or_acks_received', 'OR-ACKs received', rate],
  ['or_acks_sent', 'OR-ACKs sent', rate],
  ['or_acks_refused', 'OR-ACKs refused', rate],
  ['drops_packets', 'Drops: too many packets in the gate', rate],
  ['drops_bytes', 'Drops: too many bytes in the gate', rate],
  ['drops_flow', 'Drops: too many packets of a flow', rate],
  ['drops_codel', 'Drops by CoDel', rate],
  ['marks', 'Marks by CoDel', rate],
  ['table_full', 'Flows or stamps without room', rate],
];

function rate(v) {
  return v >= 1e6 ? `${digits(v / 1e6)} M` : v >= 1e4 ? `${digits(v / 1e3)} k` : v === 0 ? '0' : digits(v);
}
function bits(bytes) {
  const v = 8 * bytes;
  const [scale, unit] = v >= 1e9 ? [1e9, 'Gb'] : v >= 1e6 ? [1e6, 'Mb'] : [1e3, 'kb'];
  return v === 0 ? '0' : `${digits(v / scale)} ${unit}`;
}
function values(name) {
  const at = state.data.rates.indexOf(name);
  return state.seconds.map((s) => [s.at_ms, s.rates[at] ?? null]);
}
function mean(name) {
  const { now_ms: now } = state.data;
  const last = values(name).filter(([at, v]) => v !== null && now - at < 10_000);
  return last.length ? last.reduce((sum, [, v]) => sum + v, 0) / last.length : 0;
}

function drawRates() {
  const body = $('rates').tBodies[0];
  if (!body.children.length) {
    for (const [name] of RATES) {
      const row = put(body, 'tr');
      row.dataset.name = name;
      for (let i = 0; i < 3; i += 1) put(row, 'td');
      put(put(row, 'td'), 'canvas').setAttribute('aria-hidden', 'true');
    }
  }
  const { now, width: window } = span();
  const observes = state.data.agent.mode !== 'enforce';
  RATES.forEach(([name, title, show], i) => {
    const row = body.children[i];
    const [label, last, most, chart] = row.children;
    const all = values(name);
    const top = Math.max(0, ...all.map(([, v]) => v ?? 0));
    label.textContent = name === 'waited' && observes ? 'Packets that would have waited' : title;
    last.textContent = show(mean(name));
    most.textContent = show(top);
    row.className = top === 0 ? 'none' : '';
    const { pen, width, height } = surface(chart.firstChild);
    pen.fillStyle = colour('--p50');
    const second = Math.max(1, (1000 / window) * width + 0.3);
    for (const [at, v] of all) {
      if (v) pen.fillRect(width - ((now - at + 1000) / window) * width, height - (v / top) * height, second, height);
    }
    pen.fillStyle = colour('--line');
    pen.fillRect(0, height - 1, width, 1);
  });
}

function drawModes() {
  const both = [...state.paths.values()].filter((p) => p.by_mode.observe.delays && p.by_mode.enforce.delays);
  const modes = ['observe', 'enforce'].filter((m) => [...state.paths.values()].some((p) => p.by_mode[m].delays));
  $('modes').hidden = both.length === 0;
  const limits = 'The load may have differed, and these are delays of packets, not of requests: onramp forecast, or measuring at the application, says what requests gain.';
  const only = modes.length ? `All delays that are remembered are from ${modes[0] === 'observe' ? 'observing' : 'enforcing'}: there is nothing to compare.` : 'No delays are remembered.';
  $('modes-text').textContent = both.length ? `One-way delays of OR-ACKs that are remembered, by the agent's mode then. ${limits}` : only;
  const body = $('modes').tBodies[0];
  body.replaceChildren();
  for (const path of both) {
    const row = put(body, 'tr');
    put(row, 'td', path.peer);
    for (const m of ['observe', 'enforce']) {
      const { seconds, p50_ns, p99_ns } = path.by_mode[m];
      [seconds, time(p50_ns), time(p99_ns)].forEach((text) => put(row, 'td', text));
    }
  }
}

function draw() {
  drawAnswers();
  if (!state.data) return;
  drawHeat();
  drawHistory();
  drawFleet();
  if (state.data.agent) {
    drawRates();
    drawModes();
  }
}

for (const input of document.querySelectorAll('input')) input.addEventListener('change', draw);
window.addEventListener('hashchange', () => {
  draw();
  if (selected() !== null) $('history').scrollIntoView({ block: 'nearest' });
});
window.addEventListener('resize', draw);
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
document.addEventListener('visibilitychange', draw);
drawScale();
tick();
