// Fills a topic of a running broker for the benchmarks. Needs Kafka's classpath: broker.sh java MakeData.java ADDRESS SET.
//
// The same set always has the same records: one seed, and timestamps of its own. No value holds a newline, so what
// a reader prints can be compared byte for byte.

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.SplittableRandom;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class MakeData {
    // 2026-11-22T00:00:00Z
    static final long START = 1_795_305_600_000L;
    static final long JSON_BYTES = 880_000_000L;

    static final String[] WORDS = ("alpha amber basin beacon canyon cargo cedar cobalt copper delta ember falcon field fjord garnet glacier "
            + "granite harbor hazel indigo island ivory jasper kettle lagoon lantern linden maple marble meadow mercury north "
            + "nickel ocean olive orchard pebble pepper quarry quartz raven river saffron silver spruce stone summit timber "
            + "topaz tundra upland valley velvet violet walnut willow winter yonder zenith zephyr").split(" ");

    interface Records {
        /** The next record, or null after the last. */
        ProducerRecord<byte[], byte[]> next();
    }

    public static void main(String[] args) throws Exception {
        String address = args[0];
        String set = args[1];
        Records records = switch (set) {
            case "kib" -> lines(set, 1 << 20, 1024, 1, 0);
            case "small" -> lines(set, 8_000_000, 100, 1, 0);
            case "small-keys" -> lines(set, 8_000_000, 100, 1, 1_000_000);
            case "month" -> lines(set, 10_000_000, 1024, 259, 1_000_000);
            case "json-zstd", "json-lz4", "json-none" -> json(set);
            default -> throw new IllegalArgumentException("no set " + set);
        };
        Properties p = new Properties();
        p.put("bootstrap.servers", address);
        try (Admin admin = Admin.create(p)) {
            // Defaults: segments of 1 GiB (those of a month are of 100 MiB), CreateTime. The broker keeps what it gets.
            String segment = set.equals("month") ? "104857600" : "1073741824";
            Map<String, String> configs = Map.of("compression.type", "producer", "segment.bytes", segment);
            admin.createTopics(List.of(new NewTopic(set, 1, (short) 1).configs(configs))).all().get();
        }
        // The producer's defaults: batch.size 16384, linger.ms 5, acks all, idempotent.
        p.put("compression.type", set.startsWith("json-") ? set.substring(5) : "none");
        p.put("buffer.memory", 128L << 20);
        long count = 0;
        long bytes = 0;
        try (var producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (var r = records.next(); r != null; r = records.next()) {
                producer.send(r, (metadata, e) -> {
                    if (e != null) {
                        e.printStackTrace();
                        Runtime.getRuntime().halt(1);
                    }
                });
                count++;
                bytes += r.value().length;
            }
        }
        System.out.println(set + ": " + count + " records, " + bytes + " bytes of values");
    }

    /** Lines of words, each of exactly `size` bytes, so many milliseconds apart, without keys or with so many different ones. */
    static Records lines(String topic, long count, int size, long apart, int keys) {
        var random = new SplittableRandom(1);
        byte[][] words = new byte[WORDS.length][];
        for (int i = 0; i < words.length; i++) words[i] = (WORDS[i] + " ").getBytes(StandardCharsets.US_ASCII);
        long[] done = {0};
        return () -> {
            if (done[0] == count) return null;
            byte[] value = new byte[size];
            byte[] number = String.format("%08d ", done[0]).getBytes(StandardCharsets.US_ASCII);
            System.arraycopy(number, 0, value, 0, number.length);
            for (int at = number.length; at < size; ) {
                byte[] word = words[random.nextInt(words.length)];
                int n = Math.min(word.length, size - at);
                System.arraycopy(word, 0, value, at, n);
                at += n;
            }
            byte[] key = keys == 0 ? null : ("key-" + random.nextInt(keys)).getBytes(StandardCharsets.US_ASCII);
            // The last one is not in the future: brokers take none that is (KIP-937).
            return new ProducerRecord<>(topic, 0, START + (apart - 1) * (done[0] - count) + done[0]++, key, value);
        };
    }

    /** JSON objects of 300 to 600 bytes with keys, until there are 880 MB of them. */
    static Records json(String topic) {
        var random = new SplittableRandom(2);
        long[] done = {0, 0};
        var text = new StringBuilder();
        return () -> {
            if (done[1] >= JSON_BYTES) return null;
            int user = random.nextInt(200_000);
            long cents = random.nextInt(100, 500_000);
            text.setLength(0);
            text.append("{\"id\":").append(done[0]).append(",\"user\":\"user-").append(user)
                    .append("\",\"session\":\"").append(Long.toHexString(random.nextLong())).append(Long.toHexString(random.nextLong()))
                    .append("\",\"event\":\"").append(word(random)).append('.').append(word(random))
                    .append("\",\"amount\":").append(cents / 100).append('.').append(cents % 100 / 10).append(cents % 10)
                    .append(",\"currency\":\"").append(random.nextInt(3) == 0 ? "USD" : "EUR")
                    .append("\",\"ok\":").append(random.nextInt(20) != 0)
                    .append(",\"tags\":[\"").append(word(random)).append("\",\"").append(word(random)).append("\"],\"note\":\"");
            int end = random.nextInt(298, 598);
            while (text.length() < end) text.append(word(random)).append(' ');
            text.setLength(end);
            text.append("\"}");
            byte[] value = text.toString().getBytes(StandardCharsets.US_ASCII);
            done[1] += value.length;
            byte[] key = ("user-" + user).getBytes(StandardCharsets.US_ASCII);
            return new ProducerRecord<>(topic, 0, START + 50 * done[0]++, key, value);
        };
    }

    static String word(SplittableRandom random) {
        return WORDS[random.nextInt(WORDS.length)];
    }
}
