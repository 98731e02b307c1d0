// A NetherNet server on libwebrtc or libdatachannel, with plain HTTP, that echoes each message: node server.js STACK.
// It writes the port of its HTTP side.
'use strict';
const http = require('http');

const { withIdentity, withoutIdentity } = require('./identity.js');

const stack = process.argv[2];
const connections = []; // or the garbage collector takes them

async function libwebrtc(offer) {
  const { RTCPeerConnection } = require('@roamhq/wrtc');
  const pc = new RTCPeerConnection({ iceServers: [] });
  connections.push(pc);
  pc.ondatachannel = ({ channel }) => {
    channel.binaryType = 'arraybuffer';
    channel.onmessage = ({ data }) => channel.send(data);
  };
  const gathered = new Promise((done) => {
    pc.onicegatheringstatechange = () => pc.iceGatheringState === 'complete' && done();
  });
  await pc.setRemoteDescription({ type: 'offer', sdp: offer });
  await pc.setLocalDescription(await pc.createAnswer());
  await gathered;
  return pc.localDescription.sdp;
}

async function libdatachannel(offer) {
  const nd = require('node-datachannel');
  const pc = new nd.PeerConnection('server', { iceServers: [], maxMessageSize: 262144 });
  connections.push(pc);
  pc.onDataChannel((channel) => {
    connections.push(channel);
    channel.onMessage((data) => channel.sendMessageBinary(Buffer.from(data)));
  });
  const gathered = new Promise((done) => pc.onGatheringStateChange((state) => state === 'complete' && done()));
  pc.setRemoteDescription(offer, 'offer');
  await gathered;
  return pc.localDescription().sdp;
}

const answer = { libwebrtc, libdatachannel }[stack];

http.createServer((request, response) => {
  if (request.method === 'GET') {
    response.end('{"name":"echo"}');
    return;
  }
  let body = '';
  request.on('data', (chunk) => { body += chunk; });
  request.on('end', async () => {
    try {
      if (/^a=candidate/m.test(body)) throw new Error('the offer names a client');
      const sdp = withIdentity(await answer(withoutIdentity(body)), 'self');
      response.setHeader('content-type', 'application/sdp');
      response.end(sdp);
    } catch (error) {
      console.error(error);
      response.statusCode = 500;
      response.end('37');
    }
  });
}).listen(0, '127.0.0.1', function listening() { process.stdout.write(`${this.address().port}\n`); });
