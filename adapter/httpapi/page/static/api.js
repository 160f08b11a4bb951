// The HTTP API, relative to the page (same mount, same token).

/** ApiError carries the status and the stable code of a refused request. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Api calls the routes below /chat-run/ with the token that the given function returns. */
export class Api {
  constructor(base, token, fetch = globalThis.fetch.bind(globalThis)) {
    this.base = base;
    this.token = token;
    this.fetch = fetch;
  }

  me() {
    return this.request('GET', 'me');
  }

  sessions(query = {}) {
    const params = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
    return this.request('GET', params.size ? `sessions?${params}` : 'sessions');
  }

  messages(id, before) {
    return this.request('GET', `sessions/${encodeURIComponent(id)}/messages?before=${encodeURIComponent(before)}`);
  }

  rename(id, title) {
    return this.request('PATCH', `sessions/${encodeURIComponent(id)}`, { title });
  }

  remove(id) {
    return this.request('DELETE', `sessions/${encodeURIComponent(id)}`);
  }

  async request(method, path, body) {
    const headers = { Accept: 'application/json' };
    const token = this.token();
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const response = await this.fetch(new URL(path, this.base), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: 'no-store',
    });
    if (response.status === 204) return null;
    const answer = await response.json().catch(() => null);
    if (!response.ok) {
      throw new ApiError(response.status, answer?.code || '', answer?.error || `The server answered ${response.status}`);
    }
    return answer;
  }
}
