// A NetherNet client on libwebrtc (@roamhq/wrtc), libdatachannel (node-datachannel) or werift: node client.js STACK URL.
// It joins, verifies the server's identity, and obeys lines on standard input: "echo N" and "close". It writes a line
// for each step.
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

async function libwebrtc() {
  const { RTCPeerConnection } = require('@roamhq/wrtc');
  const pc = new RTCPeerConnection({ iceServers: [] });
  const reliable = pc.createDataChannel('ReliableDataChannel');
  const unreliable = pc.createDataChannel('UnreliableDataChannel', { ordered: false, maxRetransmits: 0 });
  reliable.binaryType = 'arraybuffer';
  const open = Promise.all([reliable, unreliable].map((channel) => new Promise((done) => { channel.onopen = done; })));
  reliable.onmessage = ({ data }) => received(Buffer.from(data));
  const gathered = new Promise((done) => {
    pc.onicegatheringstatechange = () => pc.iceGatheringState === 'complete' && done();
  });
  await pc.setLocalDescription(await pc.createOffer());
  await gathered;
  await pc.setRemoteDescription({ type: 'answer', sdp: await join(pc.localDescription.sdp) });
  await open;
  obey((data) => reliable.send(data), () => pc.close());
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

({ libwebrtc, libdatachannel, werift })[stack]().catch((error) => {
  console.error(error);
  process.exit(1);
});
