#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# java: a program of a line in the interpreter; then threads whose buffers, compressors and started threads
# lie outside the heap of the virtual machine.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs java javac
    cat >Hello.java <<'JAVA'
class Hello { public static void main(String[] a) { System.out.println("hello"); } }
JAVA
    cat >Threads.java <<'JAVA'
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

class Threads {
    static long job(int seed) throws Exception {
        Random random = new Random(seed);
        CRC32 sum = new CRC32();
        ArrayList<ByteBuffer> kept = new ArrayList<>();
        HashMap<String, int[]> map = new HashMap<>();
        for (int i = 0; i < 3000; i++) {
            ByteBuffer block = ByteBuffer.allocateDirect(1 + random.nextInt(20000));
            block.put(0, (byte) i);
            kept.add(block);
            map.put("key" + random.nextInt(500), new int[random.nextInt(300)]);
            if (kept.size() > 200) sum.update(kept.remove(random.nextInt(200)).get(0));
            if (i % 20 == 0) {
                Deflater deflater = new Deflater(1 + i % 9);
                byte[] in = new byte[5000], out = new byte[6000];
                random.nextBytes(in);
                Arrays.fill(in, 0, 3000, (byte) i);
                deflater.setInput(in);
                deflater.finish();
                sum.update(out, 0, deflater.deflate(out));
                deflater.end();
                Thread thread = new Thread(() -> { });
                thread.start();
                thread.join();
            }
        }
        return sum.getValue() + map.size();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        ArrayList<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < 24; i++) { int seed = i; results.add(pool.submit(() -> job(seed))); }
        for (Future<Long> result : results) System.out.println(result.get());
        pool.shutdown();
    }
}
JAVA
    javac Hello.java Threads.java
}

run() {
    java -Xint -Xmx64m -XX:-UsePerfData -cp .. Hello
    java -Xmx64m -XX:MaxDirectMemorySize=64m -XX:-UsePerfData -XX:+UseSerialGC -cp .. Threads
}

main "$@"
