// A NetherNet client on libdatachannel (node-datachannel) or werift: node client.js STACK URL. It joins, verifies the
// server's identity, and obeys lines on standard input: "echo N" and "close". It writes a line for each step.
'use strict';
const crypto = require('crypto');
const readline = require('readline');

const [stack, url] = process.argv.slice(2);
const say = (line) => process.stdout.write(line + '\n');
const b64u = (data) => Buffer.from(data).toString('base64url');

// The client's own key signs its token, as in tests without Mojang's service.
const { privateKey, publicKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-384' });
const es384 = (input) => crypto.sign('SHA384', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' });

function signed(sdp) {
  const fingerprint = [...sdp.matchAll(/^a=fingerprint:(\S+) (\S+)\r?$/gm)]
    .map(([, algorithm, digest]) => ({ algorithm, digest }));
  return b64u(JSON.stringify({ fingerprint }));
}

function withIdentity(sdp) {
  const header = b64u('{"alg":"ES384"}');
  const { kty, crv, x, y } = publicKey.export({ format: 'jwk' });
  const now = Math.floor(Date.now() / 1000);
  const claims = `${header}.${b64u(JSON.stringify({ cpk: { kty, crv, x, y }, iat: now, exp: now + 60 }))}`;
  const token = `${claims}.${b64u(es384(claims))}`;
  const fingerprints = `${header}..${b64u(es384(`${header}.${signed(sdp)}`))}`;
  const identity = { idp: { domain: '', protocol: 'default' }, assertion: JSON.stringify({ token, fingerprints }) };
  return sdp.replace(/^m=/m, `a=identity:${Buffer.from(JSON.stringify(identity)).toString('base64')}\r\nm=`);
}

// withoutIdentity verifies the identity, and returns the description without it.
function withoutIdentity(sdp) {
  const [line, text] = sdp.match(/^a=identity:(\S+)\r\n/m);
  const { assertion } = JSON.parse(Buffer.from(text, 'base64'));
  const { token, fingerprints } = JSON.parse(assertion);
  const [header, claims, own] = token.split('.');
  const key = crypto.createPublicKey({ key: JSON.parse(Buffer.from(claims, 'base64url')).cpk, format: 'jwk' });
  const verify = (input, signature) => crypto.verify('SHA384', Buffer.from(input),
    { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url'));
  const [header2, signature] = fingerprints.split('..');
  if (!verify(`${header}.${claims}`, own) || !verify(`${header2}.${signed(sdp)}`, signature)) {
    throw new Error('the identity of the server is not valid');
  }
  return sdp.replace(line, '');
}

// join sends the offer and returns the answer.
async function join(offer) {
  const state = await fetch(`${url}/v1/join`);
  if (!state.ok) throw new Error(`GET: ${state.status}`);
  await state.text();
  const response = await fetch(`${url}/v1/join/3`, {
    method: 'POST', headers: { 'content-type': 'application/sdp' }, body: withIdentity(offer),
  });
  const answer = await response.text();
  if (!response.ok || !answer.startsWith('v=')) throw new Error(`POST: ${response.status} ${answer}`);
  return withoutIdentity(answer);
}

let expected = 0;
let awaited = 0;

function received(data) {
  const text = Buffer.from(data).subarray(1).toString();
  if (data[0] !== 0 || text !== `message ${expected}`) throw new Error(`got ${data[0]} ${text}, want ${expected}`);
  if (++expected === awaited) say('echoed');
}

function obey(send, close) {
  say('open');
  let sent = 0;
  readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const [order, n] = line.split(' ');
    if (order === 'echo') {
      awaited += Number(n);
      for (; sent < awaited; sent++) send(Buffer.concat([Buffer.from([0]), Buffer.from(`message ${sent}`)]));
    } else {
      close();
      setTimeout(() => process.exit(0), 500);
    }
  });
}

async function libdatachannel() {
  const nd = require('node-datachannel');
  const pc = new nd.PeerConnection('client', { iceServers: [], maxMessageSize: 262144 });
  const gathered = new Promise((done) => pc.onGatheringStateChange((state) => state === 'complete' && done()));
  const reliable = pc.createDataChannel('ReliableDataChannel');
  const unreliable = pc.createDataChannel('UnreliableDataChannel', { unordered: true, maxRetransmits: 0 });
  const open = Promise.all([reliable, unreliable].map((channel) => new Promise((done) => channel.onOpen(done))));
  reliable.onMessage(received);
  await gathered;
  pc.setRemoteDescription(await join(pc.localDescription().sdp), 'answer');
  await open;
  obey((data) => reliable.sendMessageBinary(data), () => pc.close());
}

async function werift() {
  const { RTCPeerConnection } = require('werift');
  const pc = new RTCPeerConnection({ iceServers: [] });
  const reliable = pc.createDataChannel('ReliableDataChannel');
  const unreliable = pc.createDataChannel('UnreliableDataChannel', { ordered: false, maxRetransmits: 0 });
  const open = Promise.all([reliable, unreliable].map((channel) => new Promise((done) => {
    channel.stateChanged.subscribe((state) => state === 'open' && done());
  })));
  reliable.onMessage.subscribe(received);
  const gathered = new Promise((done) => pc.iceGatheringStateChange.subscribe((state) => state === 'complete' && done()));
  await pc.setLocalDescription(await pc.createOffer());
  if (pc.iceGatheringState !== 'complete') await gathered;
  await pc.setRemoteDescription({ type: 'answer', sdp: await join(pc.localDescription.sdp) });
  await open;
  obey((data) => reliable.send(data), () => pc.close());
}

({ libdatachannel, werift })[stack]().catch((error) => {
  console.error(error);
  process.exit(1);
});
