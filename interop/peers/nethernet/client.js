// A NetherNet client on libwebrtc (@roamhq/wrtc), libdatachannel (node-datachannel) or werift: node client.js STACK URL.
// It joins, verifies the server's identity, and obeys lines on standard input: "echo N", "large BYTES", "perhaps" and
// "close". It writes a line for each step, and "told" when it is told to join again.
'use strict';
const readline = require('readline');

const { withIdentity, withoutIdentity } = require('./identity.js');

const [stack, url] = process.argv.slice(2);
const say = (line) => process.stdout.write(line + '\n');

// join sends the offer and returns the answer.
async function join(offer) {
  const state = await fetch(`${url}/v1/join`);
  if (!state.ok) throw new Error(`GET: ${state.status}`);
  await state.text();
  const response = await fetch(`${url}/v1/join/3`, {
    method: 'POST', headers: { 'content-type': 'application/sdp' }, body: withIdentity(offer, ''),
  });
  const answer = await response.text();
  if (!response.ok || !answer.startsWith('v=')) throw new Error(`POST: ${response.status} ${answer}`);
  return withoutIdentity(answer);
}

// fragments are the parts of a message, each with the number of those that follow before it.
function fragments(message) {
  const room = 9999;
  const all = [];
  for (let at = 0; at < message.length; at += room) all.push(message.subarray(at, at + room));
  return all.map((part, i) => Buffer.concat([Buffer.from([all.length - 1 - i]), part]));
}

const perhaps = Buffer.from('\0perhaps'); // an unreliable message, which is sent until it comes back on either channel
let trying;
const awaited = []; // messages that must come back, in order
let parts = [];

function received(data) {
  const part = Buffer.from(data);
  if (part.equals(perhaps)) {
    if (trying) say('echoed');
    clearInterval(trying);
    trying = undefined;
    return;
  }
  parts.push(part.subarray(1));
  if (part[0] > 0) return;
  const got = Buffer.concat(parts);
  parts = [];
  if (awaited.length === 0 && got.includes('join again')) return say('told');
  const want = awaited.shift();
  if (!want || !got.equals(want)) {
    throw new Error(`got ${got.length} bytes: ${got.subarray(0, 40)}, want ${want && want.subarray(0, 40)}`);
  }
  if (awaited.length === 0) say('echoed');
}

function obey(send, close, sendUnreliable) {
  say('open');
  let sent = 0;
  const play = (message) => {
    awaited.push(message);
    fragments(message).forEach(send);
  };
  readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const [order, n] = line.split(' ');
    if (order === 'echo') {
      for (const end = sent + Number(n); sent < end; sent++) play(Buffer.from(`message ${sent}`));
    } else if (order === 'large') {
      play(Buffer.alloc(Number(n), 'tide'));
    } else if (order === 'perhaps') {
      trying = setInterval(() => sendUnreliable(perhaps), 200);
    } else {
      close();
      setTimeout(() => process.exit(0), 500);
    }
  });
}

async function libwebrtc() {
  const { RTCPeerConnection } = require('@roamhq/wrtc');
  const pc = new RTCPeerConnection({ iceServers: [] });
  const reliable = pc.createDataChannel('ReliableDataChannel');
  const unreliable = pc.createDataChannel('UnreliableDataChannel', { ordered: false, maxRetransmits: 0 });
  for (const channel of [reliable, unreliable]) {
    channel.binaryType = 'arraybuffer';
    channel.onmessage = ({ data }) => received(data);
  }
  const open = Promise.all([reliable, unreliable].map((channel) => new Promise((done) => { channel.onopen = done; })));
  const gathered = new Promise((done) => {
    pc.onicegatheringstatechange = () => pc.iceGatheringState === 'complete' && done();
  });
  await pc.setLocalDescription(await pc.createOffer());
  await gathered;
  await pc.setRemoteDescription({ type: 'answer', sdp: await join(pc.localDescription.sdp) });
  await open;
  obey((data) => reliable.send(data), () => pc.close(), (data) => unreliable.send(data));
}

async function libdatachannel() {
  const nd = require('node-datachannel');
  const pc = new nd.PeerConnection('client', { iceServers: [], maxMessageSize: 262144 });
  const gathered = new Promise((done) => pc.onGatheringStateChange((state) => state === 'complete' && done()));
  const reliable = pc.createDataChannel('ReliableDataChannel');
  const unreliable = pc.createDataChannel('UnreliableDataChannel', { unordered: true, maxRetransmits: 0 });
  const open = Promise.all([reliable, unreliable].map((channel) => new Promise((done) => channel.onOpen(done))));
  for (const channel of [reliable, unreliable]) channel.onMessage(received);
  await gathered;
  pc.setRemoteDescription(await join(pc.localDescription().sdp), 'answer');
  await open;
  obey((data) => reliable.sendMessageBinary(data), () => pc.close(), (data) => unreliable.sendMessageBinary(data));
}

async function werift() {
  const { RTCPeerConnection } = require('werift');
  const pc = new RTCPeerConnection({ iceServers: [] });
  const reliable = pc.createDataChannel('ReliableDataChannel');
  const unreliable = pc.createDataChannel('UnreliableDataChannel', { ordered: false, maxRetransmits: 0 });
  const open = Promise.all([reliable, unreliable].map((channel) => new Promise((done) => {
    channel.stateChanged.subscribe((state) => state === 'open' && done());
  })));
  for (const channel of [reliable, unreliable]) channel.onMessage.subscribe(received);
  const gathered = new Promise((done) => pc.iceGatheringStateChange.subscribe((state) => state === 'complete' && done()));
  await pc.setLocalDescription(await pc.createOffer());
  if (pc.iceGatheringState !== 'complete') await gathered;
  await pc.setRemoteDescription({ type: 'answer', sdp: await join(pc.localDescription.sdp) });
  await open;
  obey((data) => reliable.send(data), () => pc.close(), (data) => unreliable.send(data));
}

({ libwebrtc, libdatachannel, werift })[stack]().catch((error) => {
  console.error(error);
  process.exit(1);
});
