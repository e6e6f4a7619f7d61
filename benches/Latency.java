// Sends records one after another to a topic that it makes, at a steady rate, and prints for each: its number, when it was sent, and when the
// broker had acknowledged it, in nanoseconds of the system's monotonic clock.
//   Latency BOOT TOPIC COUNT PER_SECOND BYTES

import java.util.*;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

public class Latency {
    public static void main(String[] a) throws Exception {
        String boot = a[0], topic = a[1];
        int count = Integer.parseInt(a[2]), perSecond = Integer.parseInt(a[3]), bytes = Integer.parseInt(a[4]);
        try (var admin = Admin.create(Map.of("bootstrap.servers", boot))) {
            if (!admin.listTopics().names().get().contains(topic)) admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        var config = Map.<String, Object>of("bootstrap.servers", boot, "acks", "all", "linger.ms", "0");
        var out = new StringBuilder();
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            // The first ones pay for connecting and for compiling; readers know them by their number.
            for (int i = -200; i < 0; i++) {
                producer.send(new ProducerRecord<>(topic, "x", pad(i, bytes))).get();
                Thread.sleep(5);
            }
            System.out.println("warm");
            System.out.flush();
            if (System.in.read() < 0) return;
            long next = System.nanoTime(), step = 1_000_000_000L / perSecond;
            for (int i = 0; i < count; i++, next += step) {
                for (long left; (left = next - System.nanoTime()) > 0; ) LockSupport.parkNanos(left);
                long sent = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, "x", pad(i, bytes))).get();
                out.append(i).append(' ').append(sent).append(' ').append(System.nanoTime()).append('\n');
            }
        }
        System.out.print(out);
    }

    static String pad(int number, int bytes) {
        String text = "#" + number + "#";
        return text + "x".repeat(Math.max(0, bytes - text.length()));
    }
}
