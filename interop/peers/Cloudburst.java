import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioDatagramChannel;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.function.Supplier;
import org.cloudburstmc.netty.channel.raknet.RakChannelFactory;
import org.cloudburstmc.netty.channel.raknet.RakPing;
import org.cloudburstmc.netty.channel.raknet.RakPong;
import org.cloudburstmc.netty.channel.raknet.RakPriority;
import org.cloudburstmc.netty.channel.raknet.RakReliability;
import org.cloudburstmc.netty.channel.raknet.config.RakChannelOption;
import org.cloudburstmc.netty.channel.raknet.packet.RakMessage;
import org.cloudburstmc.netty.handler.codec.raknet.server.RakServerOfflineHandler;

/**
 * A RakNet peer on CloudburstMC's netty-transport-raknet: a client, or a server that echoes every message as it came.
 * Usage: Cloudburst.java PORT|HOST:PORT client|server [MODE SECRET]|ping; ping asks for the server list text, MODE is of
 * cookies: active, offloaded or offloaded_psk.
 */
final class Cloudburst {
    private static final int PROTOCOL = 11;
    private static final Gson GSON = new Gson();

    public static void main(String[] args) throws Exception {
        int split = args[0].lastIndexOf(':');
        String host = split < 0 ? "127.0.0.1" : args[0].substring(0, split);
        InetSocketAddress address = new InetSocketAddress(host, Integer.parseInt(args[0].substring(split + 1)));
        switch (args[1]) {
            case "server" -> {
                serve(address, args.length > 2 ? new EdgeCookies(args[2], HexFormat.of().parseHex(args[3])) : null);
                obey(null);
            }
            case "ping" -> {
                ask(address);
                obey(null);
            }
            default -> obey(connect(address));
        }
        System.exit(0); // netty's threads would continue
    }

    private static void serve(InetSocketAddress address, EdgeCookies cookies) throws InterruptedException {
        Channel server = new ServerBootstrap()
            .channelFactory(RakChannelFactory.server(NioDatagramChannel.class))
            .group(new NioEventLoopGroup(1))
            .option(RakChannelOption.RAK_SUPPORTED_PROTOCOLS, new int[] {PROTOCOL})
            .option(RakChannelOption.RAK_SEND_COOKIE, cookies == null)
            .option(RakChannelOption.RAK_ADVERTISEMENT,
                Unpooled.copiedBuffer("MCPE;Cloudburst;", StandardCharsets.UTF_8))
            .childHandler(initializer(Echo::new))
            .bind(address).sync().channel();
        if (cookies != null) {
            server.pipeline().addBefore(RakServerOfflineHandler.NAME, "edge-cookies", cookies);
        }
        tell("listening", Map.of());
    }

    private static void ask(InetSocketAddress address) throws InterruptedException {
        new Bootstrap()
            .channelFactory(RakChannelFactory.client(NioDatagramChannel.class))
            .group(new NioEventLoopGroup(1))
            .handler(new SimpleChannelInboundHandler<RakPong>() {
                @Override
                protected void channelRead0(ChannelHandlerContext ctx, RakPong pong) {
                    tell("ponged", Map.of("payload", ByteBufUtil.hexDump(pong.getPongData())));
                }
            })
            .bind(0).sync().channel()
            .writeAndFlush(new RakPing(1, address)).sync();
    }

    private static Channel connect(InetSocketAddress address) throws InterruptedException {
        return new Bootstrap()
            .channelFactory(RakChannelFactory.client(NioDatagramChannel.class))
            .group(new NioEventLoopGroup(1))
            .option(RakChannelOption.RAK_PROTOCOL_VERSION, PROTOCOL)
            .handler(initializer(Player::new))
            .connect(address).sync().channel();
    }

    private static ChannelInitializer<Channel> initializer(Supplier<ChannelInboundHandlerAdapter> handler) {
        return new ChannelInitializer<>() {
            @Override
            protected void initChannel(Channel channel) {
                channel.pipeline().addLast(handler.get());
            }
        };
    }

    /** The server's side of a connection. */
    private static final class Echo extends SimpleChannelInboundHandler<RakMessage> {
        @Override
        public void channelActive(ChannelHandlerContext ctx) {
            tell("joined", Map.of());
        }

        @Override
        protected void channelRead0(ChannelHandlerContext ctx, RakMessage message) {
            received(message);
            ctx.writeAndFlush(new RakMessage(message.content().retain(), message.reliability(), RakPriority.NORMAL,
                message.channel()));
        }

        @Override
        public void channelInactive(ChannelHandlerContext ctx) {
            tell("left", Map.of());
        }
    }

    /** The client's side of a connection. */
    private static final class Player extends SimpleChannelInboundHandler<RakMessage> {
        @Override
        public void channelActive(ChannelHandlerContext ctx) {
            tell("connected", Map.of());
        }

        @Override
        protected void channelRead0(ChannelHandlerContext ctx, RakMessage message) {
            received(message);
        }

        @Override
        public void channelInactive(ChannelHandlerContext ctx) {
            tell("disconnected", Map.of());
        }
    }

    private static void received(RakMessage message) {
        tell("received", Map.of("payload", ByteBufUtil.hexDump(message.content())));
    }

    /** Writes one event. */
    private static synchronized void tell(String event, Map<String, String> fields) {
        JsonObject line = GSON.toJsonTree(fields).getAsJsonObject();
        line.addProperty("event", event);
        System.out.println(line);
    }

    /** Runs commands until stdin ends. A server has no connection of its own, and takes none. */
    private static void obey(Channel connection) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            switch (command.get("do").getAsString()) {
                case "send" -> connection.writeAndFlush(message(command));
                case "burst" -> connection.eventLoop().execute(() -> burst(connection, command.get("count").getAsInt()));
                case "leave" -> connection.disconnect();
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    /** Sends numbered messages at once, so that they wait in one queue. */
    private static void burst(Channel connection, int count) {
        for (int i = 0; i < count; i++) {
            connection.write(new RakMessage(Unpooled.wrappedBuffer(new byte[] {(byte) 0xfe, (byte) (i >> 8), (byte) i})));
        }
        connection.flush();
    }

    private static RakMessage message(JsonObject command) {
        byte[] payload = ByteBufUtil.decodeHexDump(command.get("payload").getAsString());
        boolean reliable = command.get("reliable").getAsBoolean();
        return new RakMessage(Unpooled.wrappedBuffer(payload),
            reliable ? RakReliability.RELIABLE_ORDERED : RakReliability.UNRELIABLE);
    }
}
