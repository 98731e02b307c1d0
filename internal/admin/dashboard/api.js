// Requests to the admin server. The token is sent as a header, never as a cookie: so no other site and no other port of
// this machine can use it. It lives as long as the tab.

const key = 'tidegate-token';
let onDenied = () => {};
export const whenDenied = (f) => { onDenied = f; };
export const setToken = (token) => { sessionStorage.setItem(key, token); };

function headers() {
  const token = sessionStorage.getItem(key);
  return token ? { Authorization: 'Bearer ' + token } : {};
}

// request returns a response. A refusal throws the server's text.
export async function request(path, options = {}) {
  const response = await fetch(path, { ...options, headers: headers(), cache: 'no-store' });
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({ error: response.statusText }));
  if (response.status === 401) onDenied(error);
  throw Object.assign(new Error(error), { status: response.status });
}
export const get = async (path) => (await request(path)).json();
export const post = async (path, body = {}) => (await request(path, { method: 'POST', body: JSON.stringify(body) })).json();

// every calls ask at once, and again a time after its end. A tenth of the time at most goes into answers. A hidden page
// asks nothing. wanted tells ask whether its answer is still wanted: not after a newer call of again, nor after stop.
export function every(milliseconds, ask) {
  let timer, newest = 0;
  async function again() {
    clearTimeout(timer);
    const mine = ++newest, wanted = () => mine === newest, begun = performance.now();
    if (!document.hidden) await ask(wanted);
    if (wanted()) timer = setTimeout(again, Math.max(milliseconds, 9 * (performance.now() - begun)));
  }
  again();
  return {
    again,
    stop() {
      clearTimeout(timer);
      newest++;
    },
  };
}

// exchange trades the one-time key of `tidegate dashboard` for a token.
export async function exchange(once) {
  const response = await fetch('/login', { method: 'POST', body: JSON.stringify({ key: once }) });
  if (response.ok) setToken((await response.json()).token);
}

// Live reads the server-sent events. fetch is used since an EventSource cannot send the token.
export class Live {
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.session = '';
    document.addEventListener('visibilitychange', () => this.restart());
  }

  // watch also asks for the events of a session; an empty ID for none.
  watch(session) {
    if (this.session !== session || !this.abort) {
      this.session = session;
      this.restart();
    }
  }

  // restart opens the stream again. A hidden page reads nothing, so that the proxy collects nothing for it.
  restart() {
    clearTimeout(this.timer);
    if (this.abort) this.abort.abort();
    this.abort = null;
    if (document.hidden) {
      this.onState('paused');
      return;
    }
    this.run(this.abort = new AbortController());
  }

  async run(abort) {
    try {
      const query = this.session ? '?session=' + encodeURIComponent(this.session) : '';
      const response = await request('/api/v1/live' + query, { signal: abort.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
        for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) this.read(text.slice(0, end));
      }
    } catch (err) {
      if (abort.signal.aborted || err.status === 401) return;
    }
    if (abort.signal.aborted) return;
    this.onState('reconnecting');
    this.timer = setTimeout(() => this.restart(), 2000);
  }

  read(block) {
    const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(block) || [];
    if (!name) return;
    this.onState('live');
    this.onEvent(name, JSON.parse(data));
  }
}
