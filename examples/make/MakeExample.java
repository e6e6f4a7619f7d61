// Fills a broker with a week of a small shop's life, for topicfs's example data. Needs Kafka's classpath:
//
//   broker.sh java MakeExample.java ADDRESS week 1      the week until the maintenance stop
//   broker.sh java MakeExample.java ADDRESS week 2      the rest of it
//   broker.sh java MakeExample.java ADDRESS settle DIR  deletes the oldest logs, and waits until the cleaner is through with the data directory DIR
//   broker.sh java MakeExample.java ADDRESS tell        prints what consumers see, one partition a line
//
// All of it is invented, from one seed; every run writes the same records with the same timestamps and offsets. What is not the same:
// producer ids, topic ids, and the timestamps of transaction markers, which are those of the run.

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class MakeExample {
    static final long SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
    static final long START = time("2026-11-22T00:00:00Z");
    static final long END = time("2026-11-29T00:00:00Z");
    /** The broker is restarted here: a new leader epoch. */
    static final long MAINTENANCE = time("2026-11-26T03:00:00Z");
    /** The logs begin here; their first segment is deleted again, as by retention. */
    static final long LOGS_START = time("2026-11-25T12:00:00Z");
    /** Payments fail in this time. */
    static final long INCIDENT = time("2026-11-27T14:05:00Z");
    static final long INCIDENT_END = INCIDENT + 26 * MINUTE;
    /** The sensors' gateway is not reached in this time; it sends afterwards what it has kept. */
    static final long OUTAGE = time("2026-11-24T08:00:00Z");
    static final long OUTAGE_END = OUTAGE + 3 * HOUR;
    /** The last transaction of the second payment producer begins about here and is never ended. */
    static final long OPEN = time("2026-11-28T21:40:00Z");

    static final int FIRST_ORDER = 4711;
    static final int ORDERS = 950;
    static final int CUSTOMERS = 420;

    static String address;

    public static void main(String[] args) {
        address = args[0];
        int status = 0;
        try {
            switch (args[1]) {
                case "week" -> week(Integer.parseInt(args[2]));
                case "settle" -> settle(Path.of(args[2]));
                case "tell" -> tell();
                default -> throw new IllegalArgumentException(args[1]);
            }
        } catch (Exception e) {
            e.printStackTrace();
            status = 1;
        }
        System.out.flush();
        // Not by returning: closing a producer would end its open transaction.
        Runtime.getRuntime().halt(status);
    }

    // ---------------------------------------------------------------- the week

    record Event(String topic, Integer partition, long time, String key, byte[] value, List<Header> headers) {}

    /** One order's step: what the shop's services do about it shows in orders, payments and app-logs. */
    record Step(long time, int order, String status, String source, String more) {}

    static void week(int part) throws Exception {
        long from = part == 1 ? START : MAINTENANCE;
        long to = part == 1 ? MAINTENANCE : END;
        topics(part);
        List<Step> steps = steps();
        send(from, to, orders(steps), 24, Map.of());
        send(from, to, customers(), 12, Map.of());
        send(from, to, sensors(), 72, Map.of("compression.type", "lz4"));
        send(from, to, logs(steps), 400, Map.of("compression.type", "zstd", "compression.zstd.level", 12));
        payments(from, to, steps);
        if (part == 2) {
            try (Admin admin = admin()) {
                Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
                for (int p = 0; p < 3; p++) committed.put(new TopicPartition("orders", p), new OffsetAndMetadata(1000 + 10L * p));
                admin.alterConsumerGroupOffsets("warehouse", committed).all().get();
            }
        }
    }

    static void topics(int part) throws Exception {
        Map<String, String> compacted = Map.of("cleanup.policy", "compact", "internal.segment.bytes", "16384",
                "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "" + 30 * DAY, "file.delete.delay.ms", "100");
        try (Admin admin = admin()) {
            if (part == 2) {
                // The broker has made these by now. Small segments, so that the cleaner leaves little of them.
                for (String topic : List.of("__consumer_offsets", "__transaction_state")) compact(admin, topic, compacted);
                return;
            }
            admin.createTopics(List.of(
                    topic("orders", 3, Map.of()),
                    topic("payments", 1, Map.of("internal.segment.bytes", "65536", "segment.ms", "" + 90 * DAY)),
                    topic("customers", 1, compacted),
                    topic("sensors", 2, Map.of()),
                    topic("app-logs", 2, Map.of("segment.ms", "" + 12 * HOUR, "file.delete.delay.ms", "100")))).all().get();
        }
    }

    static void compact(Admin admin, String topic, Map<String, String> config) throws Exception {
        List<AlterConfigOp> ops = new ArrayList<>();
        config.forEach((name, value) -> ops.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), ops)).all().get();
    }

    static NewTopic topic(String name, int partitions, Map<String, String> config) {
        return new NewTopic(name, partitions, (short) 1).configs(config);
    }

    // ---------------------------------------------------------------- orders

    static List<Step> steps() {
        var random = new SplittableRandom(1);
        List<Step> steps = new ArrayList<>();
        List<Long> times = new ArrayList<>();
        while (times.size() < ORDERS) {
            long t = START + random.nextLong(7 * DAY);
            // Few people shop at night.
            int hour = (int) (t / HOUR % 24);
            if (random.nextInt(100) < (hour < 6 ? 8 : hour < 9 ? 45 : hour < 22 ? 95 : 40)) times.add(t);
        }
        times.sort(null);
        for (int i = 0; i < ORDERS; i++) {
            int order = FIRST_ORDER + i;
            long t = times.get(i);
            steps.add(new Step(t, order, "created", pick(random, "web", "web", "web", "app", "app", "phone", "partner"), basket(random)));
            if (random.nextInt(100) < 5) {
                steps.add(new Step(t + random.nextLong(MINUTE, HOUR), order, "cancelled", "web", ",\"reason\":\"" + pick(random, "changed my mind", "wrong address", "duplicate") + "\""));
                continue;
            }
            t += random.nextLong(20 * SECOND, 12 * MINUTE);
            for (int attempt = 1; random.nextInt(100) < 3 || incident(t); attempt++) {
                String reason = incident(t) ? "timeout" : pick(random, "declined", "expired card");
                steps.add(new Step(t, order, "payment-failed", "payments", ",\"attempt\":" + attempt + ",\"reason\":\"" + reason + "\""));
                // The service repeats by itself after a timeout; otherwise the customer must.
                t += incident(t) ? random.nextLong(30 * SECOND, 2 * MINUTE) : random.nextLong(2 * MINUTE, 30 * MINUTE);
            }
            steps.add(new Step(t, order, "paid", "payments", ""));
            t += random.nextLong(HOUR, 18 * HOUR);
            steps.add(new Step(t, order, "packed", "warehouse", ",\"shelf\":\"" + (char) ('A' + random.nextInt(6)) + random.nextInt(1, 40) + "\""));
            t += random.nextLong(20 * MINUTE, 5 * HOUR);
            String carrier = pick(random, "Nordpost", "Parcelo", "Velokurier");
            steps.add(new Step(t, order, "shipped", "warehouse", ",\"carrier\":\"" + carrier + "\",\"parcel\":\"" + carrier.charAt(0) + random.nextInt(10_000_000, 99_999_999) + "\""));
            t += random.nextLong(16 * HOUR, 50 * HOUR);
            steps.add(new Step(t, order, "delivered", "carrier", random.nextInt(8) == 0 ? ",\"note\":\"" + pick(random, "left with the neighbour", "bei Müller im Hinterhaus", "am Empfang", "ring twice") + "\"" : ""));
            if (random.nextInt(100) < 3) steps.add(new Step(t + random.nextLong(2 * HOUR, DAY), order, "returned", "warehouse", ",\"refund\":true"));
        }
        steps.removeIf(s -> s.time >= END);
        steps.sort(Comparator.comparingLong(Step::time));
        return steps;
    }

    static boolean incident(long t) {
        return t >= INCIDENT && t < INCIDENT_END;
    }

    static String basket(SplittableRandom random) {
        String[][] goods = {{"TEA-0231", "7.90"}, {"TEA-0118", "5.40"}, {"CUP-1002", "12.00"}, {"POT-3300", "34.50"}, {"SPOON-77", "3.20"},
            {"HONEY-12", "6.80"}, {"CAKE-501", "18.90"}, {"BOOK-914", "22.00"}, {"TIN-0040", "9.50"}, {"FILTER-9", "2.10"}};
        var text = new StringBuilder(",\"customer\":\"customer-" + (1001 + random.nextInt(CUSTOMERS)) + "\",\"items\":[");
        long cents = 0;
        int count = 1 + random.nextInt(4);
        for (int i = 0; i < count; i++) {
            String[] g = goods[random.nextInt(goods.length)];
            int quantity = 1 + random.nextInt(3);
            cents += quantity * Long.parseLong(g[1].replace(".", ""));
            text.append(i == 0 ? "" : ",").append("{\"sku\":\"").append(g[0]).append("\",\"quantity\":").append(quantity).append(",\"price\":").append(g[1]).append('}');
        }
        return text.append("],\"total\":").append(money(cents)).append(",\"currency\":\"EUR\"").toString();
    }

    static List<Event> orders(List<Step> steps) {
        var random = new SplittableRandom(2);
        List<Event> events = new ArrayList<>();
        for (Step s : steps) {
            String value = "{\"order\":\"order-" + s.order + "\",\"status\":\"" + s.status + "\",\"at\":\"" + iso(s.time) + "\"" + s.more + "}";
            // A client with a bug sends half an object now and then.
            if (s.status.equals("created") && s.source.equals("partner") && random.nextInt(12) == 0) value = value.substring(0, value.length() / 2);
            List<Header> headers = new ArrayList<>(List.of(header("source", s.source), header("trace-id", hex(random.nextLong()))));
            if (s.more.contains("timeout")) headers.add(header("retry", "true"));
            events.add(new Event("orders", null, s.time, "order-" + s.order, bytes(value), headers));
        }
        return events;
    }

    // ---------------------------------------------------------------- customers

    static List<Event> customers() {
        var random = new SplittableRandom(3);
        String[] first = "Ada Bela Carla Dario Edda Femi Greta Hugo Ilse Jonas Keiko Lars Mira Nils Olga Paula Quentin Rosa Sven Tilda Ute Viktor Wanda Zoë Łukasz".split(" ");
        String[] last = "Abel Berger Costa Diaz Eriksen Fuchs Grün Holm Ito Jansen Keller Lindt Moreau Novak Ostrow Petit Quist Rossi Sørensen Tanaka Ulrich Vogel Weiß Yilmaz Zeller".split(" ");
        String[] cities = "Aarhus Bern Cádiz Delft Erfurt Freiburg Göteborg Hannover Innsbruck Jena Kraków Lyon Malmö Nantes Oslo Porto".split(" ");
        List<Event> events = new ArrayList<>();
        for (int i = 0; i < CUSTOMERS; i++) {
            String key = "customer-" + (1001 + i);
            String name = pick(random, first) + " " + pick(random, last);
            long t = START + random.nextLong(2 * DAY);
            int changes = random.nextInt(5);
            for (int version = 1; version <= 1 + changes && t < END; version++) {
                String value = "{\"customer\":\"" + key + "\",\"version\":" + version + ",\"name\":\"" + name + "\",\"city\":\"" + pick(random, cities)
                        + "\",\"tier\":\"" + pick(random, "basic", "basic", "silver", "gold") + "\",\"newsletter\":" + random.nextBoolean() + "}";
                events.add(new Event("customers", null, t, key, bytes(value), List.of()));
                t += random.nextLong(HOUR, 2 * DAY);
            }
            // Whoever closes the account is deleted: a tombstone. Some come back.
            if (random.nextInt(100) < 9 && t < END) {
                events.add(new Event("customers", null, t, key, null, List.of()));
                t += random.nextLong(HOUR, 3 * DAY);
                if (random.nextInt(4) == 0 && t < END) events.add(new Event("customers", null, t, key, bytes("{\"customer\":\"" + key + "\",\"version\":1,\"name\":\"" + name + "\",\"city\":\"" + pick(random, cities) + "\",\"tier\":\"basic\",\"newsletter\":false}"), List.of()));
            }
        }
        events.sort(Comparator.comparingLong(Event::time));
        return events;
    }

    // ---------------------------------------------------------------- sensors

    /** Avro, as with a schema registry: a zero byte, the schema's number, then the record of README.md. */
    static List<Event> sensors() {
        var random = new SplittableRandom(4);
        List<Event> live = new ArrayList<>();
        List<Event> late = new ArrayList<>();
        for (long t = START; t < END; t += 10 * MINUTE) {
            for (int s = 0; s < 6; s++) {
                long at = t + s * 1500L + random.nextInt(400);
                double day = Math.sin(2 * Math.PI * (t / HOUR % 24 + t / MINUTE % 60 / 60.0 - 9) / 24);
                double value = s % 2 == 0 ? 21 + 4 * day + random.nextInt(-4, 5) / 10.0 : 62 - 11 * day + random.nextInt(-15, 16) / 10.0;
                var out = new ByteArrayOutputStream();
                out.writeBytes(new byte[] {0, 0, 0, 0, 7});
                avro(out, "tea-house-" + (1 + s / 2) + (s % 2 == 0 ? "/temperature" : "/humidity"));
                avro(out, at);
                out.writeBytes(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putFloat(Math.round(value * 10) / 10f).array());
                // A union of null and int: the battery is told once an hour.
                avro(out, t % HOUR == 0 ? 1 : 0);
                if (t % HOUR == 0) avro(out, 97 - (t - START) / (9 * HOUR) - s);
                boolean kept = s < 2 && t >= OUTAGE && t < OUTAGE_END;
                (kept ? late : live).add(new Event("sensors", s < 4 ? 0 : 1, at, null, out.toByteArray(), List.of()));
            }
        }
        // In the order of arrival: what the gateway had kept comes after the outage.
        int i = 0;
        while (live.get(i).time < OUTAGE_END) i++;
        live.addAll(i, late);
        return live;
    }

    static void avro(ByteArrayOutputStream out, String text) {
        byte[] bytes = bytes(text);
        avro(out, bytes.length);
        out.writeBytes(bytes);
    }

    static void avro(ByteArrayOutputStream out, long number) {
        long n = number << 1 ^ number >> 63;
        for (; (n & ~0x7fL) != 0; n >>>= 7) out.write((int) (n & 0x7f | 0x80));
        out.write((int) n);
    }

    // ---------------------------------------------------------------- app-logs

    static List<Event> logs(List<Step> steps) {
        var random = new SplittableRandom(5);
        List<Event> events = new ArrayList<>();
        for (Step s : steps) {
            if (s.time < LOGS_START) continue;
            String order = "order-" + s.order;
            switch (s.status) {
                case "created" -> {
                    log(events, s.time, "gateway", "INFO", "POST /api/orders 201 " + random.nextInt(30, 400) + "ms source=" + s.source);
                    log(events, s.time + 12, "orders", "INFO", "accepted " + order);
                }
                case "paid" -> log(events, s.time, "payments", "INFO", "captured payment of " + order + " in " + random.nextInt(80, 900) + "ms");
                case "payment-failed" -> {
                    if (s.more.contains("timeout")) {
                        log(events, s.time, "payments", "ERROR", "payment of " + order + " failed: connection to db-payments-1:5432 timed out after 5000ms\n"
                                + "    at shop.payments.Ledger.insert(Ledger.java:118)\n    at shop.payments.Capture.run(Capture.java:64)\n    at java.base/java.lang.Thread.run(Thread.java:1583)");
                        log(events, s.time + 3, "gateway", "WARN", "POST /api/payments 503 5003ms retry-after=120");
                    } else {
                        log(events, s.time, "payments", "WARN", "payment of " + order + " refused by the bank");
                    }
                }
                case "packed", "shipped" -> log(events, s.time, "warehouse", "INFO", s.status + " " + order);
                default -> log(events, s.time, "orders", "INFO", order + " is now " + s.status);
            }
        }
        for (long t = LOGS_START; t < END; t += random.nextLong(SECOND, 21 * SECOND)) {
            boolean incident = incident(t);
            int kind = random.nextInt(100);
            if (kind < 62) {
                String path = pick(random, "/", "/tea", "/tea/green", "/cups", "/basket", "/api/orders/order-" + (FIRST_ORDER + random.nextInt(ORDERS)), "/search?q=honey", "/health");
                log(events, t, "gateway", "INFO", "GET " + path + " 200 " + random.nextInt(2, 120) + "ms");
            } else if (kind < 66) {
                log(events, t, "gateway", "WARN", "GET " + pick(random, "/tea/purple", "/wp-login.php", "/.env", "/old-shop") + " 404 1ms");
            } else if (kind < 78) {
                log(events, t, "orders", "DEBUG", "cache " + pick(random, "hit", "hit", "hit", "miss") + " customer-" + (1001 + random.nextInt(CUSTOMERS)));
            } else if (kind < 88) {
                log(events, t, "payments", incident ? "WARN" : "DEBUG", "pool db-payments-1 active=" + (incident ? 32 : random.nextInt(1, 9)) + " waiting=" + (incident ? random.nextInt(20, 190) : 0));
            } else if (kind < 97) {
                log(events, t, "warehouse", "DEBUG", "scanner " + random.nextInt(1, 5) + " read shelf " + (char) ('A' + random.nextInt(6)) + random.nextInt(1, 40));
            } else {
                boolean jam = random.nextInt(40) == 0;
                log(events, t, "warehouse", jam ? "ERROR" : "INFO", "printer 2 " + (jam ? "paper jam" : pick(random, "label printed", "label printed", "paper low")));
            }
        }
        events.sort(Comparator.comparingLong(Event::time));
        return events;
    }

    static void log(List<Event> events, long time, String service, String level, String text) {
        int partition = service.equals("gateway") || service.equals("orders") ? 0 : 1;
        events.add(new Event("app-logs", partition, time, service, bytes(iso(time) + " " + String.format("%-5s", level) + " " + service + ": " + text), List.of()));
    }

    // ---------------------------------------------------------------- payments

    /** The payments of a few minutes that one producer writes in one transaction. */
    record Transaction(int producer, long start, long end, boolean commit, List<Step> steps) {}

    static List<Transaction> transactions(List<Step> steps) {
        TreeMap<Long, List<Step>> windows = new TreeMap<>();
        for (Step s : steps) {
            if (!s.status.equals("paid") && !s.status.equals("payment-failed")) continue;
            // A window has failures or successes, so that it is aborted or committed as a whole.
            boolean failed = s.more.contains("timeout");
            windows.computeIfAbsent((s.time / (12 * MINUTE) * 2 + s.order % 2) * 2 + (failed ? 1 : 0), k -> new ArrayList<>()).add(s);
        }
        var random = new SplittableRandom(7);
        List<Transaction> transactions = new ArrayList<>();
        long[] free = {0, 0};
        for (var w : windows.entrySet()) {
            int producer = (int) (w.getKey() / 2 % 2);
            List<Step> in = w.getValue();
            long start = Math.max(in.get(0).time, free[producer]);
            long end = Math.max(in.get(in.size() - 1).time, start) + 30 * SECOND;
            boolean commit = w.getKey() % 2 == 0;
            transactions.add(new Transaction(producer, start, end, commit && random.nextInt(100) >= 4, in));
            // The service died before it could commit, and does it all again.
            if (commit && !transactions.get(transactions.size() - 1).commit) {
                start = end + 1;
                end = start + 20 * SECOND;
                transactions.add(new Transaction(producer, start, end, true, in));
            }
            free[producer] = end + 1;
        }
        return transactions;
    }

    @SuppressWarnings("removal")
    static void payments(long from, long to, List<Step> steps) throws Exception {
        // Sorted by time: begin and end of transactions of two producers, which overlap.
        TreeMap<Long, List<Runnable>> actions = new TreeMap<>();
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            var p = producer(Map.of("transactional.id", "payment-service-" + i, "transaction.timeout.ms", 900_000));
            p.initTransactions();
            producers.add(p);
        }
        var group = new ConsumerGroupMetadata("payment-service");
        boolean[] hanging = {false};
        for (Transaction x : transactions(steps)) {
            if (x.start < from || x.start >= to) continue;
            var p = producers.get(x.producer);
            boolean open = x.producer == 1 && x.start >= OPEN;
            actions.computeIfAbsent(x.start, k -> new ArrayList<>()).add(() -> {
                if (hanging[0] && x.producer == 1) return;
                p.beginTransaction();
                for (Step s : x.steps) {
                    String payment = "\"payment\":\"pay-" + hex(0x9e3779b97f4a7c15L * s.order).substring(0, 8) + "\",\"order\":\"order-" + s.order + "\"";
                    boolean failed = s.status.equals("payment-failed");
                    p.send(record(new Event("payments", 0, s.time, "order-" + s.order, bytes("{" + payment + ",\"state\":\"authorised\"}"), List.of())));
                    p.send(record(new Event("payments", 0, s.time + 700, "order-" + s.order, bytes("{" + payment + ",\"state\":\"" + (failed ? "failed" : "captured") + "\"}"), List.of())));
                }
                p.flush();
                if (open) hanging[0] = true;
            });
            actions.computeIfAbsent(x.end, k -> new ArrayList<>()).add(() -> {
                if (hanging[0] && x.producer == 1) return;
                if (x.commit) {
                    p.sendOffsetsToTransaction(Map.of(new TopicPartition("orders", x.producer), new OffsetAndMetadata(x.steps.get(0).order - FIRST_ORDER)), group);
                    p.commitTransaction();
                } else {
                    p.abortTransaction();
                }
            });
        }
        for (List<Runnable> at : actions.values()) at.forEach(Runnable::run);
        if (to == END && !hanging[0]) throw new IllegalStateException("no transaction is open");
    }

    // ---------------------------------------------------------------- sending and reading

    /** Sends the events of a time, about `batch` of them in one record batch. */
    static void send(long from, long to, List<Event> events, int batch, Map<String, Object> config) throws Exception {
        var random = new SplittableRandom(6);
        try (var producer = producer(config)) {
            int left = batch;
            for (Event e : events) {
                if (e.time < from || e.time >= to) continue;
                producer.send(record(e));
                if (--left == 0) {
                    producer.flush();
                    left = batch / 2 + random.nextInt(batch);
                }
            }
        }
    }

    static ProducerRecord<byte[], byte[]> record(Event e) {
        return new ProducerRecord<>(e.topic, e.partition, e.time, e.key == null ? null : bytes(e.key), e.value, e.headers);
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> config) {
        Map<String, Object> p = new HashMap<>(config);
        p.put("bootstrap.servers", address);
        // A batch ends with flush(), nowhere else.
        p.put("linger.ms", 60_000);
        p.put("batch.size", 900_000);
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", address));
    }

    /** Deletes all before the second segment of each partition of app-logs. */
    static void retention(Path data) throws Exception {
        Map<TopicPartition, RecordsToDelete> delete = new HashMap<>();
        for (int p = 0; p < 2; p++) {
            var bases = bases(data.resolve("app-logs-" + p));
            delete.put(new TopicPartition("app-logs", p), RecordsToDelete.beforeOffset(bases.higher(bases.first())));
        }
        try (Admin admin = admin()) {
            admin.deleteRecords(delete).all().get();
        }
    }

    static TreeSet<Long> bases(Path partition) throws IOException {
        try (var files = Files.list(partition)) {
            return files.map(f -> f.getFileName().toString()).filter(name -> name.endsWith(".log"))
                    .map(name -> Long.valueOf(name.substring(0, 20))).collect(Collectors.toCollection(TreeSet::new));
        }
    }

    /** Waits until the cleaner has been over all but the active segment of each compacted topic and nothing waits for deletion. */
    static void settle(Path data) throws Exception {
        retention(data);
        long end = System.currentTimeMillis() + 120_000;
        int quiet = 0;
        while (quiet < 5) {
            if (System.currentTimeMillis() > end) throw new IllegalStateException("the cleaner is not done");
            quiet = settled(data) ? quiet + 1 : 0;
            Thread.sleep(1000);
        }
    }

    static boolean settled(Path data) throws IOException {
        String done = Files.readString(data.resolve("cleaner-offset-checkpoint"));
        for (String topic : List.of("customers", "__consumer_offsets", "__transaction_state")) {
            var bases = bases(data.resolve(topic + "-0"));
            if (bases.size() > 1 && !done.contains(topic + " 0 " + bases.last() + "\n")) return false;
        }
        try (var files = Files.walk(data)) {
            return files.noneMatch(f -> f.toString().matches(".*\\.(deleted|cleaned|swap)"));
        }
    }

    /** One line a partition: start, end, last stable offset, records, committed records, first and last time. */
    static void tell() throws Exception {
        System.out.println("topic\tpartition\tstart\tend\tlast-stable\trecords\tcommitted\tfirst\tlast");
        Map<String, Integer> topics = new LinkedHashMap<>();
        for (String t : List.of("app-logs", "customers", "orders", "payments", "sensors")) topics.put(t, Map.of("app-logs", 2, "orders", 3, "sensors", 2).getOrDefault(t, 1));
        for (var t : topics.entrySet()) {
            for (int p = 0; p < t.getValue(); p++) {
                var partition = new TopicPartition(t.getKey(), p);
                long[] all = read(partition, "read_uncommitted");
                long[] committed = read(partition, "read_committed");
                System.out.println(t.getKey() + "\t" + p + "\t" + all[0] + "\t" + all[1] + "\t" + committed[1] + "\t" + all[2] + "\t" + committed[2]
                        + "\t" + iso(all[3]) + "\t" + iso(all[4]));
            }
        }
    }

    /** Start, end, count, smallest and largest timestamp. */
    static long[] read(TopicPartition partition, String isolation) {
        Map<String, Object> c = Map.of("bootstrap.servers", address, "isolation.level", isolation);
        try (var consumer = new KafkaConsumer<>(c, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long[] seen = {consumer.position(partition), consumer.endOffsets(List.of(partition)).get(partition), 0, Long.MAX_VALUE, Long.MIN_VALUE};
            while (consumer.position(partition) < seen[1]) {
                for (var r : consumer.poll(Duration.ofMillis(200))) {
                    seen[2]++;
                    seen[3] = Math.min(seen[3], r.timestamp());
                    seen[4] = Math.max(seen[4], r.timestamp());
                }
            }
            return seen;
        }
    }

    // ---------------------------------------------------------------- small things

    static long time(String iso) {
        return Instant.parse(iso).toEpochMilli();
    }

    static String iso(long time) {
        String text = Instant.ofEpochMilli(time).truncatedTo(ChronoUnit.MILLIS).toString();
        // Instant leaves zeros out.
        return text.length() == 20 ? text.substring(0, 19) + ".000Z" : text;
    }

    static String hex(long number) {
        return String.format("%016x", number);
    }

    static String money(long cents) {
        return cents / 100 + "." + cents % 100 / 10 + cents % 10;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static Header header(String name, String value) {
        return new RecordHeader(name, bytes(value));
    }

    static String pick(SplittableRandom random, String... from) {
        return from[random.nextInt(from.length)];
    }
}
