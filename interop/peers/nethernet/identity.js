// Identities of NetherNet, by the means of Node alone.
'use strict';
const crypto = require('crypto');

const b64u = (data) => Buffer.from(data).toString('base64url');

// The key signs its own token: a server's does, and a client's in tests without Mojang's service.
const { privateKey, publicKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-384' });
const es384 = (input) => crypto.sign('SHA384', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' });

function signed(sdp) {
  const fingerprint = [...sdp.matchAll(/^a=fingerprint:(\S+) (\S+)\r?$/gm)]
    .map(([, algorithm, digest]) => ({ algorithm, digest }));
  return b64u(JSON.stringify({ fingerprint }));
}

function withIdentity(sdp, domain) {
  const header = b64u('{"alg":"ES384"}');
  const { kty, crv, x, y } = publicKey.export({ format: 'jwk' });
  const now = Math.floor(Date.now() / 1000);
  const claims = `${header}.${b64u(JSON.stringify({ cpk: { kty, crv, x, y }, iat: now, exp: now + 60 }))}`;
  const token = `${claims}.${b64u(es384(claims))}`;
  const fingerprints = `${header}..${b64u(es384(`${header}.${signed(sdp)}`))}`;
  const identity = { idp: { domain, protocol: 'default' }, assertion: JSON.stringify({ token, fingerprints }) };
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
    throw new Error('the identity is not valid');
  }
  return sdp.replace(line, '');
}

module.exports = { withIdentity, withoutIdentity };
