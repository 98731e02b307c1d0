import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.socket.DatagramPacket;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.cloudburstmc.netty.channel.raknet.RakServerChannel;

/**
 * The cookie modes of newer Cloudburst servers, for one that has none: it stands before the server's own handling of the
 * handshake, and does it by the published algorithm. Written anew from its description, apart from Tidegate's.
 */
public final class EdgeCookies extends ChannelInboundHandlerAdapter {
    private static final int REQUEST_1 = 0x05;
    private static final int REPLY_1 = 0x06;
    private static final int REQUEST_2 = 0x07;
    private static final int REPLY_2 = 0x08;
    private static final int MAGIC = 16;
    private static final int LARGEST_MTU = 1400;

    private final String mode;
    private final byte[] secret;

    public EdgeCookies(String mode, byte[] secret) {
        this.mode = mode;
        this.secret = secret;
    }

    @Override
    public void channelRead(ChannelHandlerContext ctx, Object message) throws Exception {
        if (!(message instanceof DatagramPacket packet) || !isRequest(packet.content())) {
            ctx.fireChannelRead(message);
            return;
        }
        try {
            if (packet.content().getUnsignedByte(0) == REQUEST_1) {
                answer(ctx, packet);
            } else {
                admit(ctx, packet);
            }
        } finally {
            packet.release();
        }
    }

    private static boolean isRequest(ByteBuf datagram) {
        int id = datagram.readableBytes() > MAGIC ? datagram.getUnsignedByte(0) : -1;
        return id == REQUEST_1 || id == REQUEST_2;
    }

    /** Answers a first request, unless that is for whoever stands in front. */
    private void answer(ChannelHandlerContext ctx, DatagramPacket packet) throws Exception {
        if (!mode.equals("active")) {
            return;
        }
        ByteBuf request = packet.content();
        int version = request.getUnsignedByte(1 + MAGIC);
        long minute = System.currentTimeMillis() / 60_000;
        int low = (int) (minute & 15) << 4 | (version - 1) & 15;
        ByteBuf reply = begin(ctx, REPLY_1, request);
        reply.writeBoolean(true).writeInt(cookie(packet.sender(), minute, low));
        reply.writeShort(Math.min(request.readableBytes() + 28, LARGEST_MTU));
        ctx.writeAndFlush(new DatagramPacket(reply, packet.sender()));
    }

    /** Lets a client in whose cookie is good. */
    private void admit(ChannelHandlerContext ctx, DatagramPacket packet) throws Exception {
        ByteBuf request = packet.content();
        int cookie = request.getInt(1 + MAGIC);
        if (!isGood(packet.sender(), cookie)) {
            return;
        }
        int rest = 1 + MAGIC + 4 + 1 + 7; // after cookie, challenge flag and the server's IPv4 address
        int mtu = request.getUnsignedShort(rest);
        RakServerChannel server = (RakServerChannel) ctx.channel();
        if (mtu > LARGEST_MTU
            || server.createChildChannel(packet.sender(), packet.recipient(), request.getLong(rest + 2), (cookie & 15) + 1, mtu) == null) {
            return;
        }
        ByteBuf reply = begin(ctx, REPLY_2, request);
        reply.writeByte(4);
        for (byte b : packet.sender().getAddress().getAddress()) {
            reply.writeByte(~b);
        }
        reply.writeShort(packet.sender().getPort()).writeShort(mtu).writeBoolean(false);
        ctx.writeAndFlush(new DatagramPacket(reply, packet.sender()));
    }

    private static ByteBuf begin(ChannelHandlerContext ctx, int id, ByteBuf request) {
        long guid = ((RakServerChannel) ctx.channel()).config().getGuid();
        return ctx.alloc().ioBuffer().writeByte(id).writeBytes(request, 1, MAGIC).writeLong(guid);
    }

    private boolean isGood(InetSocketAddress sender, int cookie) throws Exception {
        long now = System.currentTimeMillis() / 60_000;
        long age = now - (cookie >> 4) & 15;
        return age <= 1 && (mode.equals("offloaded") || cookie == cookie(sender, now - age, cookie & 255));
    }

    private int cookie(InetSocketAddress sender, long minute, int low) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret, "HmacSHA256"));
        byte[] key = Arrays.copyOf(mac.doFinal(ByteBuffer.allocate(8).putLong(minute / 10).array()), 16);
        byte[] ip = sender.getAddress().getAddress();
        byte[] text = ByteBuffer.allocate(ip.length + 3).put(ip).putShort((short) sender.getPort()).put((byte) low).array();
        return (int) (sipHash(ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN), text) << 8) | low;
    }

    /** SipHash-2-4 of an IPv4 sender's text, whose seven bytes are one word together with their number. */
    private static long sipHash(ByteBuffer key, byte[] text) {
        long k0 = key.getLong();
        long k1 = key.getLong();
        long word = ByteBuffer.wrap(Arrays.copyOf(text, 8)).order(ByteOrder.LITTLE_ENDIAN).getLong() | (long) text.length << 56;
        long[] v = {k0 ^ 0x736f6d6570736575L, k1 ^ 0x646f72616e646f6dL, k0 ^ 0x6c7967656e657261L, k1 ^ 0x7465646279746573L};
        v[3] ^= word;
        round(v);
        round(v);
        v[0] ^= word;
        v[2] ^= 255;
        for (int i = 0; i < 4; i++) {
            round(v);
        }
        return v[0] ^ v[1] ^ v[2] ^ v[3];
    }

    private static void round(long[] v) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = Long.rotateLeft(v[1], 13) ^ v[0];
        v[3] = Long.rotateLeft(v[3], 16) ^ v[2];
        v[0] = Long.rotateLeft(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = Long.rotateLeft(v[1], 17) ^ v[2];
        v[3] = Long.rotateLeft(v[3], 21) ^ v[0];
        v[2] = Long.rotateLeft(v[2], 32);
    }
}
