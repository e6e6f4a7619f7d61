// Drives the real Kafka 4.4 for tests, all in one JVM: its log loader, its dump tool, and brokers.
// Reads one command a line, its words parted by tabs, and answers each with one line of JSON: what it found, or {"thrown": ...}.
//
//   load DIR LOG_START CLEAN INTERVAL [POINT]  opens a partition directory as a broker that starts; CLEAN: whether it had stopped in
//                                       order; POINT: the recovery point if not, else 0
//   compact DIR LOG_START NOW CHECKPOINT SLOTS KEY=VALUE..  opens a partition directory as after an orderly stop, at that time and with that
//                                       configuration of its topic, and cleans it once as a thread of the log cleaner does: CHECKPOINT: what
//                                       cleaner-offset-checkpoint says, -1 for nothing; SLOTS: how many keys fit into the map, at a load of
//                                       0.9. All is below the high watermark. Cleaned is whatever is dirty, also where the cleaner would still
//                                       wait (isCleanable). The files of DIR are the cleaned ones then, closed in order
//   retain DIR LOG_START NOW KEY=VALUE..  the same with what is too old or too much (deleteOldSegments)
//   rebuild DIR LOG_START NOW POINT KEY=VALUE..  the same as after a crash with that recovery point: makes the files that logs lack
//                                       A KEY of all three may be producer.id.expiration.ms too, which is Integer.MAX_VALUE without
//   truncate DIR LOG_START INTERVAL OFFSET  opens a partition directory that was stopped in order, cuts its log at the offset as a
//                                       follower does, and closes it
//   dump FILE,FILE..                    what kafka-dump-log says of them
//   format PROPERTIES CLUSTER_ID        formats the directories of a broker
//   start NAME PROPERTIES               starts a broker that is its own controller, or a part of a cluster
//   stop NAME                           stops it in order
//   create BOOT TOPIC REPLICAS KEY=VALUE.. makes a topic (REPLICAS: 1 or 1:2:3, with commas between those of several partitions)
//   records BOOT TOPIC ISOLATION        all records from the beginning: [offset, timestamp, key, value], base64 or null
//   produce BOOT TOPIC COUNT            appends records
//   offsets BOOT TOPIC                  earliest and latest offset, and the log end of each replica
//   abort BOOT TOPIC                    ends the open transactions, as kafka-transactions.sh abort does; how many there were
//   reassign BOOT TOPIC REPLICAS        moves the partition to other replicas, and waits until they are in sync
//   witness BOOT TOPIC PARTITION ISOLATION FILE  from now on: all records from the beginning, each a line of `.jsonl` in FILE as soon as it is got
//   load-topic BOOT TOPIC HOW RATE SECONDS  from now on: two producers, RATE records a second in all (HOW: a codec, `keyed`, `txn`)
//   loaded                              waits for these producers: how many records of each topic were acknowledged
//   witnessed                           waits until all witnesses have all records, and ends them: how many each has
//   fill BOOT TOPIC COUNT WORD KEYS     appends records WORD 0, WORD 1 .. with that many different keys, one batch each
//   configure BOOT TOPIC KEY=VALUE..    changes a topic's configuration; KEY= takes a config away
//   configure-broker BOOT ID KEY=VALUE..  the same of a broker, or of all brokers (ID: all)
//   configs BOOT TOPIC                  what the broker says of each config of a topic: [value, who has set it]
//   delete-records BOOT TOPIC OFFSET    moves the log start
//   delete-topic BOOT TOPIC             deletes a topic
//   partitions BOOT TOPIC COUNT         gives it more partitions
//   leader BOOT TOPIC BROKER ISR        waits until the broker leads the partition, and the in-sync replicas are those (1:2)

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.apache.kafka.tools.DumpLogSegments;

public class Driver {
    static final PrintStream out = System.out;
    static final Map<String, KafkaRaftServer> servers = new HashMap<>();
    static KafkaScheduler scheduler;

    public static void main(String[] a) throws Exception {
        System.setOut(System.err);
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String answer;
            try {
                answer = run(line.split("\t"));
            } catch (Throwable t) {
                t.printStackTrace();
                answer = "{\"thrown\":" + q(t + (t.getCause() == null ? "" : ", caused by " + t.getCause())) + "}";
            }
            out.println(answer);
            out.flush();
        }
        for (var server : servers.values()) server.shutdown();
        Runtime.getRuntime().halt(0);
    }

    static String run(String[] w) throws Exception {
        return switch (w[0]) {
            case "load" -> load(new File(w[1]), Long.parseLong(w[2]), Boolean.parseBoolean(w[3]), w[4], w.length > 5 ? Long.parseLong(w[5]) : 0);
            case "compact" -> Upkeep.compact(w);
            case "retain" -> Upkeep.retain(w);
            case "rebuild" -> Upkeep.rebuild(w);
            case "truncate" -> truncate(new File(w[1]), Long.parseLong(w[2]), w[3], Long.parseLong(w[4]));
            case "dump" -> dump(w[1], Arrays.copyOfRange(w, 2, w.length));
            case "format" -> format(w[1], w[2]);
            case "start" -> start(w[1], w[2]);
            case "stop" -> stop(w[1]);
            case "create" -> create(w[1], w[2], w[3], Arrays.copyOfRange(w, 4, w.length));
            case "records" -> records(w[1], w[2], w[3]);
            case "produce" -> produce(w[1], w[2], Integer.parseInt(w[3]));
            case "transact" -> transact(w[1], w[2], Integer.parseInt(w[3]), w.length > 4 ? Integer.parseInt(w[4]) : 0);
            case "offsets" -> offsets(w[1], w[2]);
            case "abort" -> abort(w[1], w[2]);
            case "reassign" -> reassign(w[1], w[2], w[3]);
            case "witness" -> Witness.start(w[1], w[2], Integer.parseInt(w[3]), w[4], w[5]);
            case "load-topic" -> Load.start(w[1], w[2], w[3], Integer.parseInt(w[4]), Integer.parseInt(w[5]));
            case "loaded" -> Load.end();
            case "witnessed" -> Witness.end();
            case "fill" -> fill(w[1], w[2], Integer.parseInt(w[3]), w[4], Integer.parseInt(w[5]));
            case "configure" -> configure(w[1], ConfigResource.Type.TOPIC, w[2], Arrays.copyOfRange(w, 3, w.length));
            case "configure-broker" -> configure(w[1], ConfigResource.Type.BROKER, w[2].equals("all") ? "" : w[2], Arrays.copyOfRange(w, 3, w.length));
            case "configs" -> configs(w[1], w[2]);
            case "delete-records" -> deleteRecords(w[1], w[2], Long.parseLong(w[3]));
            case "delete-topic" -> deleteTopic(w[1], w[2]);
            case "partitions" -> partitions(w[1], w[2], Integer.parseInt(w[3]));
            case "leader" -> awaitLeader(w[1], w[2], Integer.parseInt(w[3]), w[4]);
            default -> throw new IllegalArgumentException(w[0]);
        };
    }

    static String q(Object o) {
        var s = new StringBuilder("\"");
        for (char c : String.valueOf(o).toCharArray()) {
            if (c == '"' || c == '\\') s.append('\\').append(c);
            else if (c < ' ') s.append(String.format("\\u%04x", (int) c));
            else s.append(c);
        }
        return s.append('"').toString();
    }

    static UnifiedLog open(File dir, long logStart, boolean clean, String interval, long point) throws Exception {
        if (scheduler == null) {
            scheduler = new KafkaScheduler(1);
            scheduler.startup();
        }
        var config = new LogConfig(Map.of("segment.index.bytes", "65536", "index.interval.bytes", interval));
        return UnifiedLog.create(dir, config, logStart, clean ? Long.MAX_VALUE : point, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000, new LogDirFailureChannel(10), clean, Optional.empty());
    }

    static String truncate(File dir, long logStart, String interval, long offset) throws Exception {
        UnifiedLog log = open(dir, logStart, true, interval, 0);
        long before = log.logEndOffset();
        boolean done = log.truncateTo(offset);
        String answer = "{\"before\":" + before + ",\"done\":" + done + ",\"logStart\":" + log.logStartOffset() + ",\"logEnd\":" + log.logEndOffset() + "}";
        log.close();
        settle();
        return answer;
    }

    /** Waits for what Kafka does to checkpoints of epochs in the background. */
    static void settle() throws Exception {
        var done = new java.util.concurrent.CountDownLatch(1);
        scheduler.scheduleOnce("settle", done::countDown);
        done.await();
    }

    static String load(File dir, long logStart, boolean clean, String interval, long point) throws Exception {
        UnifiedLog log = open(dir, logStart, clean, interval, point);
        var segments = log.logSegments().stream().map(s -> "[" + s.baseOffset() + "," + s.size() + "]").collect(Collectors.joining(","));
        String answer = "{\"logStart\":" + log.logStartOffset() + ",\"logEnd\":" + log.logEndOffset() 
            + ",\"firstUnstable\":" + log.producerStateManager().firstUnstableOffset().map(o -> o.messageOffset).orElse(-1L) + ",\"segments\":[" + segments + "],\"batches\":[" + batches(log) + "]}";
        log.close();
        settle();
        return answer;
    }

    /** What a consumer gets, as [base offset, last offset, records], up to the first error, which is a string. */
    static String batches(UnifiedLog log) throws Exception {
        var got = new ArrayList<String>();
        for (long next = log.logStartOffset(); next < log.logEndOffset(); ) {
            long before = next;
            try {
                for (var b : log.read(next, 1 << 24, FetchIsolation.LOG_END, true).records.batches()) {
                    if (b.lastOffset() < next) continue;
                    b.ensureValid();
                    int n = 0;
                    for (var r : b) {
                        r.ensureValid();
                        n++;
                    }
                    got.add("[" + b.baseOffset() + "," + b.lastOffset() + "," + n + "]");
                    next = b.lastOffset() + 1;
                }
            } catch (RuntimeException e) {
                got.add(q(e));
                break;
            }
            if (next == before) break;
        }
        return String.join(",", got);
    }

    /** What is done to old records, at a time that is given. */
    static class Upkeep {
        /** What was put off, in order; none of it is done by itself. */
        static final List<Runnable> later = new ArrayList<>();

        /** Kafka's own mock is in none of the jars. */
        static class FixedTime implements Time {
            final long now;

            FixedTime(long now) {
                this.now = now;
            }

            @Override public long milliseconds() {
                return now;
            }

            @Override public long nanoseconds() {
                return now * 1_000_000;
            }

            @Override public void sleep(long ms) {
                throw new IllegalStateException("nothing has to wait");
            }
        }

        static class Deferred implements org.apache.kafka.server.util.Scheduler {
            @Override public void startup() {}

            @Override public void shutdown() {}

            @Override public void resizeThreadPool(int size) {}

            @Override public java.util.concurrent.ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
                if (period <= 0) later.add(task);
                // It is cancelled when the log is closed, and nothing else.
                Class<?>[] future = {java.util.concurrent.ScheduledFuture.class};
                return (java.util.concurrent.ScheduledFuture<?>) java.lang.reflect.Proxy.newProxyInstance(Driver.class.getClassLoader(), future,
                    (proxy, method, args) -> method.getReturnType() == boolean.class ? false : null);
            }
        }

        /** POINT: the recovery point of a log that was not closed in order, or Long.MAX_VALUE. */
        static UnifiedLog open(File dir, long logStart, Time time, long point, String[] configs) throws Exception {
            var map = new HashMap<String, String>();
            for (String config : configs) map.put(config.substring(0, config.indexOf('=')), config.substring(config.indexOf('=') + 1));
            String expiry = map.remove("producer.id.expiration.ms");
            int expires = expiry == null ? Integer.MAX_VALUE : Integer.parseInt(expiry);
            later.clear();
            UnifiedLog log = UnifiedLog.create(dir, new LogConfig(map), logStart, point, new Deferred(), new BrokerTopicStats(), time, 900_000,
                new ProducerStateManagerConfig(expires, false), 600_000, new LogDirFailureChannel(10), point == Long.MAX_VALUE, Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            return log;
        }

        /** As a broker that stops. */
        static String close(UnifiedLog log) throws Exception {
            var segments = log.logSegments().stream().map(s -> "[" + s.baseOffset() + "," + s.size() + "]").collect(Collectors.joining(","));
            String answer = ",\"segments\":[" + segments + "],\"logStart\":" + log.logStartOffset() + ",\"logEnd\":" + log.logEndOffset() + "}";
            for (int i = 0; i < later.size(); i++) later.get(i).run();
            log.prepareActiveSegmentForClose();
            log.flush(true);
            log.close();
            return answer;
        }

        static Object call(Object of, Class<?> in, String name, Object... args) throws Exception {
            for (var method : in.getDeclaredMethods()) {
                if (!method.getName().equals(name) || method.getParameterCount() != args.length) continue;
                method.setAccessible(true);
                return method.invoke(of, args);
            }
            throw new NoSuchMethodException(name);
        }

        static String compact(String[] w) throws Exception {
            long now = Long.parseLong(w[3]), checkpoint = Long.parseLong(w[4]);
            Time time = new FixedTime(now);
            UnifiedLog log = open(new File(w[1]), Long.parseLong(w[2]), time, Long.MAX_VALUE, Arrays.copyOfRange(w, 6, w.length));
            try {
                // As LogCleanerManager.grabFilthiestCompactedLog.
                Object known = checkpoint < 0 ? Optional.empty() : Optional.of(checkpoint);
                Object offsets = call(null, LogCleanerManager.class, "cleanableOffsets", log, known, now);
                long dirty = (long) call(offsets, offsets.getClass(), "firstDirtyOffset");
                long uncleanable = (long) call(offsets, offsets.getClass(), "firstUncleanableDirtyOffset");
                boolean isDue = (long) call(null, LogCleanerManager.class, "maxCompactionDelay", log, dirty, now) > 0;
                var toClean = new LogToClean(log, dirty, uncleanable, isDue);
                boolean isCleanable = toClean.totalBytes() > 0
                    && (isDue && toClean.cleanableBytes() > 0 || toClean.cleanableRatio() > log.config().minCleanableRatio);
                // Kafka's own is 0/0 where there is nothing.
                double ratio = toClean.totalBytes() > 0 ? toClean.cleanableRatio() : 0;
                boolean isDirty = toClean.cleanableBytes() > 0;
                long begun = System.nanoTime();
                long end = isDirty ? cleaner(Integer.parseInt(w[5]), time).doClean(toClean, now).getKey() : dirty;
                long millis = (System.nanoTime() - begun) / 1_000_000;
                return "{\"firstDirty\":" + dirty + ",\"firstUncleanable\":" + uncleanable + ",\"upTo\":"
                    + toClean.firstUncleanableOffset() + ",\"isReset\":"
                    + call(offsets, offsets.getClass(), "forceUpdateCheckpoint") + ",\"isDue\":" + isDue + ",\"cleanBytes\":" + toClean.cleanBytes()
                    + ",\"cleanableBytes\":" + toClean.cleanableBytes() + ",\"cleanableRatio\":" + ratio + ",\"isCleanable\":"
                    + isCleanable + ",\"millis\":" + millis + ",\"end\":" + end + close(log);
            } catch (Exception e) {
                log.closeQuietly();
                throw e;
            }
        }

        static String rebuild(String[] w) throws Exception {
            Time time = new FixedTime(Long.parseLong(w[3]));
            UnifiedLog log = open(new File(w[1]), Long.parseLong(w[2]), time, Long.parseLong(w[4]), Arrays.copyOfRange(w, 5, w.length));
            return "{\"firstUnstable\":" + log.producerStateManager().firstUnstableOffset().map(o -> o.messageOffset).orElse(-1L) + close(log);
        }

        static Cleaner cleaner(int slots, Time time) throws Exception {
            var throttler = new org.apache.kafka.storage.internals.utils.Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner-io", "bytes", time);
            return new Cleaner(0, new SkimpyOffsetMap(slots * 24), 1 << 20, 1 << 20, 0.9, throttler, time, partition -> {});
        }

        static String retain(String[] w) throws Exception {
            Time time = new FixedTime(Long.parseLong(w[3]));
            UnifiedLog log = open(new File(w[1]), Long.parseLong(w[2]), time, Long.MAX_VALUE, Arrays.copyOfRange(w, 4, w.length));
            try {
                return "{\"deleted\":" + log.deleteOldSegments() + close(log);
            } catch (Exception e) {
                log.closeQuietly();
                throw e;
            }
        }
    }

    static String dump(String files, String[] more) {
        var text = new ByteArrayOutputStream();
        var to = new PrintStream(text, true, StandardCharsets.UTF_8);
        PrintStream err = System.err, before = System.out;
        System.setOut(to);
        System.setErr(to);
        try {
            var words = new ArrayList<>(List.of("--files", files, "--deep-iteration"));
            words.addAll(List.of(more));
            DumpLogSegments.main(words.toArray(new String[0]));
        } catch (Throwable t) {
            to.println("thrown " + t);
        } finally {
            System.setOut(before);
            System.setErr(err);
        }
        return "{\"text\":" + q(text.toString(StandardCharsets.UTF_8)) + "}";
    }

    static String format(String properties, String cluster) {
        var text = new ByteArrayOutputStream();
        int code = kafka.tools.StorageTool$.MODULE$.execute(new String[]{"format", "-t", cluster, "-c", properties}, new PrintStream(text, true));
        return "{\"code\":" + code + ",\"text\":" + q(text) + "}";
    }

    static String start(String name, String properties) throws Exception {
        var p = new Properties();
        try (var r = new FileReader(properties)) { p.load(r); }
        var server = new KafkaRaftServer(KafkaConfig.fromProps(p), Time.SYSTEM);
        server.startup();
        servers.put(name, server);
        return "{}";
    }

    static String stop(String name) {
        var server = servers.remove(name);
        server.shutdown();
        server.awaitShutdown();
        return "{}";
    }

    static Admin admin(String boot) {
        return Admin.create(Map.of("bootstrap.servers", boot));
    }

    static List<Integer> ids(String replicas) {
        return Arrays.stream(replicas.split(":")).map(Integer::valueOf).toList();
    }

    static String create(String boot, String topic, String replicas, String[] configs) throws Exception {
        try (var admin = admin(boot)) {
            var map = Arrays.stream(configs).collect(Collectors.toMap(c -> c.split("=")[0], c -> c.split("=")[1]));
            var assigned = new TreeMap<Integer, List<Integer>>();
            for (String one : replicas.split(",")) assigned.put(assigned.size(), ids(one));
            var result = admin.createTopics(List.of(new NewTopic(topic, assigned).configs(map)));
            result.all().get();
            String id = result.topicId(topic).get().toString();
            while (leader(admin, topic) == null) Thread.sleep(50);
            return "{\"id\":" + q(id) + "}";
        }
    }

    static org.apache.kafka.common.Node leader(Admin admin, String topic) throws Exception {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0).leader();
        } catch (java.util.concurrent.ExecutionException e) {
            return null;
        }
    }

    static String records(String boot, String topic, String isolation) throws Exception {
        var tp = new TopicPartition(topic, 0);
        var got = new ArrayList<String>();
        Map<String, Object> config = Map.of("bootstrap.servers", boot, "isolation.level", isolation, "check.crcs", "true");
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(tp));
            consumer.seekToBeginning(List.of(tp));
            long end = consumer.endOffsets(List.of(tp)).get(tp), until = System.currentTimeMillis() + 20_000;
            while (consumer.position(tp) < end) {
                if (System.currentTimeMillis() > until) throw new IllegalStateException("at " + consumer.position(tp) + " of " + end);
                for (var r : consumer.poll(Duration.ofMillis(100)))
                    got.add("[" + r.offset() + "," + r.timestamp() + "," + base64(r.key()) + "," + base64(r.value()) + "]");
            }
        }
        return "{\"records\":[" + String.join(",", got) + "]}";
    }

    static String base64(byte[] b) {
        return b == null ? "null" : q(Base64.getEncoder().encodeToString(b));
    }

    static String produce(String boot, String topic, int count) throws Exception {
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", boot, "acks", "all"), new ByteArraySerializer(), new ByteArraySerializer())) {
            long last = -1;
            for (int i = 0; i < count; i++) {
                byte[] value = ("more " + i).getBytes(StandardCharsets.UTF_8);
                last = producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + i, ("key " + i).getBytes(StandardCharsets.UTF_8), value)).get().offset();
            }
            return "{\"last\":" + last + "}";
        }
    }

    /** A transaction that is committed, one that is aborted, and another that is committed, each of so many records. */
    static String transact(String boot, String topic, int count, int keys) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", boot, "transactional.id", "of-" + topic);
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (String what : List.of("committed", "aborted", "committed again")) {
                producer.beginTransaction();
                for (int i = 0; i < count; i++) {
                    byte[] value = (what + " " + i).getBytes(StandardCharsets.UTF_8);
                    byte[] key = keys == 0 ? null : ("key " + i % keys).getBytes(StandardCharsets.UTF_8);
                    producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L, key, value)).get();
                }
                if (what.equals("aborted")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        return "{}";
    }

    static String offsets(String boot, String topic) throws Exception {
        var tp = new TopicPartition(topic, 0);
        try (var admin = admin(boot)) {
            long earliest = admin.listOffsets(Map.of(tp, OffsetSpec.earliest())).all().get().get(tp).offset();
            long latest = admin.listOffsets(Map.of(tp, OffsetSpec.latest())).all().get().get(tp).offset();
            var partition = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0);
            var nodes = admin.describeCluster().nodes().get().stream().map(n -> n.id()).sorted().toList();
            var sizes = admin.describeLogDirs(nodes).allDescriptions().get().entrySet().stream()
                .map(e -> q(e.getKey()) + ":" + e.getValue().values().stream().map(d -> d.replicaInfos().get(tp)).filter(Objects::nonNull)
                    .map(r -> String.valueOf(r.size())).findFirst().orElse("null")).collect(Collectors.joining(","));
            return "{\"earliest\":" + earliest + ",\"latest\":" + latest + ",\"leader\":" + (partition.leader() == null ? -1 : partition.leader().id())
                + ",\"isr\":" + partition.isr().stream().map(n -> n.id()).sorted().toList() + ",\"bytes\":{" + sizes + "}}";
        }
    }

    static String abort(String boot, String topic) throws Exception {
        var tp = new TopicPartition(topic, 0);
        int count = 0;
        try (var admin = admin(boot)) {
            for (var p : admin.describeProducers(List.of(tp)).partitionResult(tp).get().activeProducers()) {
                if (p.currentTransactionStartOffset().isEmpty()) continue;
                // As the tool does: a coordinator epoch that was never seen is 0.
                int coordinator = Math.max(0, p.coordinatorEpoch().orElse(0));
                admin.abortTransaction(new AbortTransactionSpec(tp, p.producerId(), (short) p.producerEpoch(), coordinator)).all().get();
                count++;
            }
        }
        return "{\"aborted\":" + count + "}";
    }

    static String reassign(String boot, String topic, String replicas) throws Exception {
        var tp = new TopicPartition(topic, 0);
        try (var admin = admin(boot)) {
            admin.alterPartitionReassignments(Map.of(tp, Optional.of(new NewPartitionReassignment(ids(replicas))))).all().get();
            long until = System.currentTimeMillis() + 15_000;
            while (!admin.listPartitionReassignments(Set.of(tp)).reassignments().get().isEmpty()) {
                if (System.currentTimeMillis() > until) throw new IllegalStateException("not in sync after 15 s");
                Thread.sleep(100);
            }
        }
        return "{}";
    }

    /** A consumer that writes down what it gets, in the background. */
    static class Witness extends Thread {
        static final List<Witness> all = new ArrayList<>();
        final TopicPartition tp;
        final String file;
        final String boot;
        final Map<String, Object> config;
        /** Where to end, once that is known. */
        volatile long end = Long.MAX_VALUE;
        long count;
        Throwable failure;

        Witness(String boot, TopicPartition tp, String isolation, String file) {
            this.boot = boot;
            this.tp = tp;
            this.file = file;
            // What it missed it may not leave out: none.
            config = Map.of("bootstrap.servers", boot, "isolation.level", isolation, "check.crcs", "true", "auto.offset.reset", "none");
        }

        static String start(String boot, String topic, int partition, String isolation, String file) {
            var witness = new Witness(boot, new TopicPartition(topic, partition), isolation, file);
            all.add(witness);
            witness.start();
            return "{}";
        }

        static String end() throws Exception {
            var counts = new ArrayList<String>();
            // The log end, also of those who read what is committed: to get there all transactions have to be decided.
            for (var witness : all)
                try (var admin = admin(witness.boot)) {
                    witness.end = admin.listOffsets(Map.of(witness.tp, OffsetSpec.latest())).all().get().get(witness.tp).offset();
                }
            for (var witness : all) {
                witness.join();
                if (witness.failure != null) throw new IllegalStateException(witness.tp + ": " + witness.failure, witness.failure);
                counts.add(q(witness.file) + ":" + witness.count);
            }
            return "{" + String.join(",", counts) + "}";
        }

        @Override public void run() {
            try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                 var to = new BufferedOutputStream(new FileOutputStream(file), 1 << 16)) {
                consumer.assign(List.of(tp));
                consumer.seek(tp, 0);
                while (consumer.position(tp) < end) {
                    for (var r : consumer.poll(Duration.ofMillis(100))) {
                        to.write(jsonl(r).getBytes(StandardCharsets.UTF_8));
                        count++;
                    }
                    to.flush();
                }
            } catch (Throwable t) {
                t.printStackTrace();
                failure = t;
            }
        }
    }

    /** A record as topicfs documents its `.jsonl`. */
    static String jsonl(org.apache.kafka.clients.consumer.ConsumerRecord<byte[], byte[]> r) {
        var s = new StringBuilder("{\"topic\":").append(q(r.topic())).append(",\"partition\":").append(r.partition());
        s.append(",\"offset\":").append(r.offset()).append(",\"timestamp\":").append(r.timestamp());
        s.append(",\"key\":").append(json(r.key())).append(",\"value\":").append(json(r.value())).append(",\"headers\":[");
        String comma = "";
        for (var h : r.headers()) {
            s.append(comma).append('[').append(json(h.key().getBytes(StandardCharsets.UTF_8))).append(',').append(json(h.value())).append(']');
            comma = ",";
        }
        return s.append("]}\n").toString();
    }

    /** Text with control characters escaped, base64 of what is not UTF-8, or null. */
    static String json(byte[] b) {
        if (b == null) return "null";
        String text;
        try {
            text = StandardCharsets.UTF_8.newDecoder().decode(java.nio.ByteBuffer.wrap(b)).toString();
        } catch (java.nio.charset.CharacterCodingException e) {
            return "{\"base64\":" + base64(b) + "}";
        }
        var s = new StringBuilder(text.length() + 16).append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '"' -> s.append("\\\"");
                case '\\' -> s.append("\\\\");
                case '\n' -> s.append("\\n");
                case '\r' -> s.append("\\r");
                case '\t' -> s.append("\\t");
                default -> {
                    if (c < ' ' || c >= 0x7f && c < 0xa0) s.append(String.format("\\u%04x", (int) c));
                    else s.append(c);
                }
            }
        }
        return s.append('"').toString();
    }

    /** A producer that goes on for a while, in the background. */
    static class Load extends Thread {
        static final List<Load> all = new ArrayList<>();
        static final int STEPS = 20;
        final String boot, topic, how, name;
        final int rate, partitions;
        final long until;
        final Random random;
        final java.util.concurrent.atomic.AtomicLong acknowledged = new java.util.concurrent.atomic.AtomicLong();
        volatile Throwable failure;
        long number;

        Load(String boot, String topic, String how, int rate, int seconds, int partitions, int which) {
            this.boot = boot;
            this.topic = topic;
            this.how = how;
            this.rate = rate;
            this.partitions = partitions;
            name = topic + "-" + which;
            until = System.nanoTime() + seconds * 1_000_000_000L;
            random = new Random(name.hashCode());
        }

        static String start(String boot, String topic, String how, int rate, int seconds) throws Exception {
            int partitions;
            try (var admin = admin(boot)) {
                partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            }
            for (int which = 0; which < 2; which++) {
                var load = new Load(boot, topic, how, rate / 2, seconds, partitions, which);
                all.add(load);
                load.start();
            }
            return "{}";
        }

        static String end() throws Exception {
            var counts = new TreeMap<String, Long>();
            for (var load : all) {
                load.join();
                if (load.failure != null) throw new IllegalStateException(load.name + ": " + load.failure, load.failure);
                counts.merge(load.topic, load.acknowledged.get(), Long::sum);
            }
            return "{" + counts.entrySet().stream().map(e -> q(e.getKey()) + ":" + e.getValue()).collect(Collectors.joining(",")) + "}";
        }

        @Override public void run() {
            var config = new HashMap<String, Object>(Map.of("bootstrap.servers", boot, "acks", "all", "linger.ms", "5"));
            boolean transactions = how.equals("txn");
            if (transactions) config.put("transactional.id", name);
            else if (!how.equals("keyed")) config.put("compression.type", how);
            try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
                if (transactions) producer.initTransactions();
                long due = System.nanoTime();
                while (System.nanoTime() < until) {
                    if (transactions) producer.beginTransaction();
                    for (int i = 0; i < Math.max(1, rate / STEPS); i++) send(producer);
                    if (transactions) {
                        // Transactions of two producers lie within each other.
                        Thread.sleep(random.nextInt(200));
                        if (random.nextInt(4) == 0) {
                            producer.flush();
                            producer.abortTransaction();
                        } else producer.commitTransaction();
                    }
                    due += 1_000_000_000L / STEPS;
                    long wait = due - System.nanoTime();
                    // What can't be kept up with is left out.
                    if (wait > 0) Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
                    else due = System.nanoTime();
                }
            } catch (Throwable t) {
                t.printStackTrace();
                failure = t;
            }
        }

        void send(KafkaProducer<byte[], byte[]> producer) {
            long n = number++;
            long timestamp = System.currentTimeMillis() - (n % 5 == 0 ? random.nextInt(2000) : 0);
            byte[] key = n % 10 == 3 && !how.equals("keyed") ? null : bytes("key-" + random.nextInt(50));
            var record = new ProducerRecord<>(topic, (int) (n % partitions), timestamp, key, value(n));
            record.headers().add("id", bytes(name + " " + n));
            if (n % 3 == 0) record.headers().add("id", null).add("h\u00e9", bytes("\"\t\u001b" + n));
            producer.send(record, (metadata, e) -> {
                if (e == null) acknowledged.incrementAndGet();
                else failure = e;
            });
        }

        /** Another one for each number: short, long, none, not UTF-8. */
        byte[] value(long n) {
            if (n % 97 == 50) return null;
            if (n % 61 == 7) return new byte[]{(byte) 0xff, (byte) (n >> 24), (byte) (n >> 16), (byte) (n >> 8), (byte) n};
            int length = n % 500 == 499 ? 100_000 : random.nextInt(n % 20 == 0 ? 3000 : 300);
            String filler = "a \"b\" \\ c\n\td \u00e9 \ud83c\udf75 \u0085 " + n + " ";
            return bytes(name + " " + n + " " + filler.repeat(length / filler.length()));
        }

        static byte[] bytes(String text) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
    }

    // Events: what tests/brokers/events.rs has a broker do to its files.

    static String fill(String boot, String topic, int count, String word, int keys) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", boot, "acks", "1", "enable.idempotence", "false");
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            long last = -1;
            for (int i = 0; i < count; i++) {
                byte[] key = ("key " + i % keys).getBytes(StandardCharsets.UTF_8), value = (word + " " + i).getBytes(StandardCharsets.UTF_8);
                last = producer.send(new ProducerRecord<>(topic, 0, key, value)).get().offset();
            }
            return "{\"last\":" + last + "}";
        }
    }

    static String configure(String boot, ConfigResource.Type type, String name, String[] configs) throws Exception {
        try (var admin = admin(boot)) {
            Collection<AlterConfigOp> ops = Arrays.stream(configs).map(c -> c.split("=", 2))
                .map(c -> new AlterConfigOp(new ConfigEntry(c[0], c[1]), c[1].isEmpty() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)).toList();
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), ops)).all().get();
        }
        return "{}";
    }

    static String configs(String boot, String topic) throws Exception {
        try (var admin = admin(boot)) {
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            return admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().stream()
                .map(e -> q(e.name()) + ":[" + (e.value() == null ? "null" : q(e.value())) + "," + q(e.source()) + "]").collect(Collectors.joining(",", "{", "}"));
        }
    }

    static String deleteRecords(String boot, String topic, long offset) throws Exception {
        try (var admin = admin(boot)) {
            admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(offset))).all().get();
        }
        return "{}";
    }

    static String deleteTopic(String boot, String topic) throws Exception {
        try (var admin = admin(boot)) {
            admin.deleteTopics(List.of(topic)).all().get();
        }
        return "{}";
    }

    static String partitions(String boot, String topic, int count) throws Exception {
        try (var admin = admin(boot)) {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(count))).all().get();
        }
        return "{}";
    }

    static String awaitLeader(String boot, String topic, int leader, String isr) throws Exception {
        Object seen = null;
        for (long until = System.currentTimeMillis() + 20_000; System.currentTimeMillis() < until; Thread.sleep(50)) {
            try (var admin = admin(boot)) {
                var partition = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0);
                seen = partition;
                boolean leads = partition.leader() != null && partition.leader().id() == leader;
                if (leads && partition.isr().stream().map(n -> n.id()).sorted().toList().equals(ids(isr))) return "{}";
            } catch (java.util.concurrent.ExecutionException e) {
                seen = e;
            }
        }
        throw new IllegalStateException(String.valueOf(seen));
    }
}
