import java.lang.reflect.Field;

/**
 * Starts one of the tests' servers on a free port of 127.0.0.1, which it prints, and ends when its standard input does: with the
 * process that started it, however that ends.
 *
 * <p>DynamoDB Local listens on every interface if it is left alone. Both servers bring a Jetty of their own, so it is spoken to by
 * reflection.
 */
public final class Servers {
    private static final String ADDRESS = "127.0.0.1";

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "dynamodb" -> startDynamoDB();
            case "s3" -> startS3(arguments[1]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        while (System.in.read() >= 0) {
            continue;
        }
        Runtime.getRuntime().halt(0);
    }

    private static void startDynamoDB() throws Exception {
        String[] options = {"-inMemory", "-sharedDb", "-disableTelemetry", "-port", "8000"};
        Object server = Class.forName("software.amazon.dynamodb.services.local.main.ServerRunner")
                .getMethod("createServerFromCommandLineArgs", String[].class)
                .invoke(null, (Object) options);
        Object jetty = field(server, "server");
        Object[] connectors = (Object[]) jetty.getClass().getMethod("getConnectors").invoke(jetty);
        for (Object connector : connectors) {
            connector.getClass().getMethod("setHost", String.class).invoke(connector, ADDRESS);
            connector.getClass().getMethod("setPort", int.class).invoke(connector, 0);
        }
        server.getClass().getMethod("start").invoke(server);
        Object port = connectors[0].getClass().getMethod("getLocalPort").invoke(connectors[0]);
        System.out.println("listening on " + ADDRESS + ":" + port);
    }

    /** Its log says where it listens. */
    private static void startS3(String properties) throws Exception {
        Class.forName("org.gaul.s3proxy.Main")
                .getMethod("main", String[].class)
                .invoke(null, (Object) new String[] {"--properties", properties});
    }

    private static Object field(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
