// An ENet peer on the crate rusty_enet, the C library 1.3.18 in Rust. A server echoes every message.
// Usage: enet-peer PORT client|server [DATA]; DATA is the data of the Connect. Each peer has 4 channels.

use rusty_enet::{crc32, Event, Host, HostSettings, Packet, PacketKind, PeerID};
use std::io::BufRead;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, TryRecvError};
use std::{env, process, thread, time::Duration};

const CHANNELS: usize = 4;
const MODES: [&str; 3] = ["unsequenced", "unreliable", "reliable"];

fn main() {
    let args: Vec<String> = env::args().collect();
    let address: SocketAddr = format!("127.0.0.1:{}", args[1]).parse().expect("port");
    let is_server = args[2] == "server";
    let bind = if is_server { address } else { "127.0.0.1:0".parse().unwrap() };
    let mut settings = HostSettings {
        peer_limit: if is_server { 200 } else { 1 },
        channel_limit: CHANNELS,
        ..Default::default()
    };
    if args.iter().any(|a| a == "checksums") {
        settings.checksum = Some(Box::new(crc32));
    }
    let mut host = Host::new(UdpSocket::bind(bind).expect("socket"), settings).expect("host");
    let mut peer = PeerID(0);
    if is_server {
        println!("{{\"event\":\"listening\"}}");
    } else {
        let data = args[3].parse().expect("data");
        peer = host.connect(address, CHANNELS, data).expect("connect").id();
    }
    let orders = read_orders();
    loop {
        while let Some(event) = host.service().expect("service") {
            match event {
                Event::Connect { peer: one, data } => {
                    peer = one.id();
                    tell(if is_server { "joined" } else { "connected" }, data);
                }
                Event::Disconnect { data, .. } => tell(if is_server { "left" } else { "disconnected" }, data),
                Event::Receive { peer: one, channel_id, packet } => {
                    let payload = packet.data();
                    println!(
                        "{{\"event\":\"received\",\"channel\":{channel_id},\"payload\":\"{}\"}}",
                        hex_of(payload)
                    );
                    if is_server {
                        // The crate says of every packet that it came reliably. Its first byte says how it came here.
                        let mode = payload.first().and_then(|i| MODES.get(*i as usize)).unwrap_or(&"reliable");
                        one.send(channel_id, &Packet::new(payload, kind_of(mode))).expect("echo");
                    }
                }
            }
        }
        loop {
            match orders.try_recv() {
                Ok(line) => obey(host.peer_mut(peer), &line),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => process::exit(0),
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn read_orders() -> mpsc::Receiver<String> {
    let (to, orders) = mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            to.send(line.expect("order")).expect("queue");
        }
    });
    orders
}

fn obey(peer: &mut rusty_enet::Peer<UdpSocket>, order: &str) {
    let payload = field(order, "payload");
    if field(order, "do") == "send" {
        let packet = Packet::new(bytes_of(payload), kind_of(field(order, "mode")));
        peer.send(field(order, "channel").parse().expect("channel"), &packet).expect("send");
    } else {
        peer.disconnect_later(u32::from_str_radix(payload, 16).expect("data"));
    }
}

// field returns the text of a field of a flat JSON object without escapes.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let key = format!("\"{name}\":");
    let rest = &line[line.find(&key).expect(name) + key.len()..];
    match rest.strip_prefix('"') {
        Some(text) => &text[..text.find('"').expect("end of text")],
        None => &rest[..rest.find([',', '}']).expect("end of number")],
    }
}

fn kind_of(mode: &str) -> PacketKind {
    match mode {
        "reliable" => PacketKind::Reliable,
        _ => PacketKind::Unreliable { sequenced: mode == "unreliable" },
    }
}

fn hex_of(payload: &[u8]) -> String {
    payload.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

fn tell(event: &str, data: u32) {
    println!("{{\"event\":\"{event}\",\"payload\":\"{data:08x}\"}}");
}
