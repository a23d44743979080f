"""watchdog"""
