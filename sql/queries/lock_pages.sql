-- Pages are written by one watchdog at a time, so that the count of them is true; who sends them waits for nobody.
lock table stoker.pages in share row exclusive mode
